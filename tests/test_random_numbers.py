import numpy as np
import pytest

from trt_tts.random_numbers import gumbel_noise, normal_values

MASK = (1 << 64) - 1


def philox_words(key, counter, count):
    """Philox4x64-10 as its paper states it, in plain integers; numpy counts up before each block."""
    words = []
    block = counter[0] | counter[1] << 64 | counter[2] << 128 | counter[3] << 192
    while len(words) < count:
        block += 1
        x = [block >> 64 * i & MASK for i in range(4)]
        k = list(key)
        for _ in range(10):
            a, b = 0xD2E7470EE14C6C93 * x[0], 0xCA5A826395121157 * x[2]
            x = [b >> 64 ^ x[1] ^ k[0], b & MASK, a >> 64 ^ x[3] ^ k[1], a & MASK]
            k = [k[0] + 0x9E3779B97F4A7C15 & MASK, k[1] + 0xBB67AE8584CAA73B & MASK]
        words += x
    return words[:count]


def uniform(key, step, count):
    words = philox_words(key, [0, step, 0, 0], count)
    return np.array([((w >> 12) + 0.5) / 2**52 for w in words])


@pytest.mark.parametrize("key", [(0, 0, 0), (7, 3, 11), (2**63 - 1, 12, 4096), (2**53 + 1, 0, 1)])
def test_gumbel_noise_equals_an_independent_philox(key):
    seed, segment, step = key
    expected = -np.log(-np.log(uniform((seed, segment), step, 50)))
    np.testing.assert_allclose(gumbel_noise(seed, segment, step, 50), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", [0, 7, 2**31, 2**53 + 1, 2**63 - 1])
def test_normal_values_equal_an_independent_philox(seed):
    u = uniform((seed, 1 << 63), 0, 2 * 64)
    expected = np.sqrt(-2 * np.log(u[:64])) * np.cos(2 * np.pi * u[64:])
    np.testing.assert_allclose(normal_values(seed, 64), expected, rtol=1e-9, atol=1e-12)


def test_the_first_values_are_pinned():
    np.testing.assert_allclose(gumbel_noise(7, 3, 11, 3), [1.9301200, 2.1585398, 1.4489386], rtol=1e-6)
    np.testing.assert_allclose(gumbel_noise(0, 0, 0, 3), [-1.4954516, -0.3511371, -0.7859068], rtol=1e-6)
    np.testing.assert_allclose(
        normal_values(0, 3), [1.0351471325800918, -0.6959946621398693, -1.8998240644478501], rtol=1e-12
    )


def test_the_same_key_gives_the_same_bytes_whatever_was_drawn_before():
    first = gumbel_noise(5, 1, 2, 200)
    np.random.default_rng(0).normal(size=100)
    gumbel_noise(6, 1, 2, 3)
    assert gumbel_noise(5, 1, 2, 200).tobytes() == first.tobytes()
    assert normal_values(5, 64).tobytes() == normal_values(5, 64).tobytes()


def test_the_global_numpy_state_is_neither_read_nor_changed():
    np.random.seed(1)
    before = np.random.get_state()[1].tolist()
    first = gumbel_noise(5, 1, 2, 50).tobytes(), normal_values(5, 50).tobytes()
    assert np.random.get_state()[1].tolist() == before
    np.random.seed(2)
    assert (gumbel_noise(5, 1, 2, 50).tobytes(), normal_values(5, 50).tobytes()) == first


def test_a_longer_draw_begins_with_the_shorter_one():
    assert gumbel_noise(5, 1, 2, 200)[:50].tobytes() == gumbel_noise(5, 1, 2, 50).tobytes()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, 2, 3), (2, 2, 3)),
        ((1, 2, 3), (1, 3, 3)),
        ((1, 2, 3), (1, 2, 4)),
        ((1, 2, 3), (2, 1, 3)),
        ((1, 2, 3), (1, 3, 2)),
        ((0, 0, 0), (0, 0, 1)),
        ((2**62, 0, 0), (2**62 + 1, 0, 0)),
    ],
)
def test_any_changed_key_changes_every_draw(one, other):
    a, b = gumbel_noise(*one, 2000), gumbel_noise(*other, 2000)
    assert (a != b).mean() > 0.99
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.1


@pytest.mark.parametrize("seed", [0, 2**31, 2**53, 2**62, 2**63 - 2])
def test_neighbouring_seeds_give_different_normal_values(seed):
    assert not np.array_equal(normal_values(seed, 64), normal_values(seed + 1, 64))


def test_random_voices_do_not_share_their_words_with_the_sampling_noise():
    draws = normal_values(3, 1000)
    assert all(abs(np.corrcoef(draws, gumbel_noise(3, s, 0, 1000))[0, 1]) < 0.15 for s in range(4))


def test_gumbel_noise_is_finite_float32():
    noise = gumbel_noise(11, 0, 0, 200_000)
    assert noise.dtype == np.float32
    assert noise.shape == (200_000,)
    assert np.isfinite(noise).all()


def test_nothing_asked_gives_nothing():
    assert gumbel_noise(0, 0, 0, 0).shape == (0,)
    assert normal_values(0, 0).shape == (0,)


def test_gumbel_noise_has_the_moments_of_gumbel():
    noise = gumbel_noise(2024, 0, 0, 200_000).astype(np.float64)
    assert noise.mean() == pytest.approx(0.5772, abs=0.012)
    assert noise.var() == pytest.approx(np.pi**2 / 6, abs=0.03)
    assert np.median(noise) == pytest.approx(-np.log(np.log(2)), abs=0.012)


def test_gumbel_max_draws_from_the_softmax():
    logits = np.array([2.0, 1.0, 0.0, -1.0, 0.5])
    expected = np.exp(logits) / np.exp(logits).sum()
    draws = np.array([np.argmax(logits + gumbel_noise(9, 4, step, 5)) for step in range(20_000)])
    np.testing.assert_allclose(np.bincount(draws, minlength=5) / len(draws), expected, atol=0.015)


def test_normal_values_have_the_moments_of_the_normal_distribution():
    draws = normal_values(2024, 200_000)
    assert draws.dtype == np.float64
    assert draws.mean() == pytest.approx(0, abs=0.01)
    assert draws.std() == pytest.approx(1, abs=0.01)
    assert (draws**3).mean() == pytest.approx(0, abs=0.04)
    assert (draws**4).mean() == pytest.approx(3, abs=0.1)
    assert (np.abs(draws) < 1).mean() == pytest.approx(0.6827, abs=0.005)
