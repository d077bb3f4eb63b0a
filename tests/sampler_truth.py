"""ChatTTS's sampling order written out in numpy: sort-based, one codebook at a time."""

import numpy as np

LEAST = 3


def penalised(logits, recent, temperature, penalty):
    """logits [V] and the ids of the penalty window -> scores [V]."""
    scores = logits.astype(np.float64) / temperature
    for code in range(len(scores)):
        count = int((np.asarray(recent) == code).sum())
        scores[code] *= penalty**count if scores[code] < 0 else penalty**-count
    return scores


def kept(scores, top_p, top_k):
    """Ids that top-P, then top-K leave, best first."""
    order = np.argsort(-scores, kind="stable")
    probability = np.exp(scores[order] - scores.max())
    probability /= probability.sum()
    # Summed from the least likely up: an id goes while the tail below and with it stays within 1 - top_p.
    tail = probability[::-1].cumsum()[::-1]
    by_p = [i for rank, i in enumerate(order) if rank < LEAST or tail[rank] > 1 - top_p]
    return by_p[: max(top_k, LEAST)]


def distribution(logits, recent, temperature, top_p, top_k, penalty):
    """Probabilities [V] the code is drawn with."""
    scores = penalised(logits, recent, temperature, penalty)
    ids = kept(scores, top_p, top_k)
    result = np.zeros(len(scores))
    result[ids] = np.exp(scores[ids] - scores[ids].max())
    return result / result.sum()


def draw(logits, recent, noise, temperature, top_p, top_k, penalty, allow_end=True, end=625):
    """The drawn id and how far its perturbed score lies above the next one's."""
    scores = penalised(logits, recent, temperature, penalty)
    ids = [(rank, i) for rank, i in enumerate(kept(scores, top_p, top_k)) if allow_end or i != end]
    perturbed = sorted(((scores[i] + noise[rank], i) for rank, i in ids), reverse=True)
    return perturbed[0][1], perturbed[0][0] - perturbed[1][0]
