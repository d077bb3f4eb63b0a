"""Sets against sets: what is compared with what, and on which checkpoint."""

from dataclasses import replace

import pytest

from tests.conftest import export_by_copying
from trt_tts.builders import compare as module
from trt_tts.builders.compare import BuiltSet, Comparison, compare, require_checkpoint
from trt_tts.errors import UsageError
from trt_tts.manifest import CheckpointInfo, Manifest
from trt_tts.quality import GATES

TEXTS = ("turn the fan on", "where is the red battery?", "it is ten past nine.")


@pytest.fixture(scope="module")
def exact(demo_set):
    return BuiltSet(demo_set, Manifest.load(demo_set))


@pytest.fixture(scope="module")
def int8(demo_int8_set):
    return BuiltSet(demo_int8_set, Manifest.load(demo_int8_set))


def run(wanted, checkpoint=None):
    return compare(wanted, checkpoint, lambda stage: None)


def test_a_cpu_set_is_compared_with_another_without_the_checkpoint(exact, int8):
    wanted = Comparison(int8, exact, TEXTS, 4, (0,))
    assert not wanted.needs_checkpoint
    found = run(wanted)
    assert found.reference == str(exact.path)
    assert 0.95 < found.top1 < 1 and 20 < found.hidden_snr_db < 60
    assert found.words.utterances == 4
    assert not found.simulated


@pytest.mark.slow
def test_fp32_is_exported_from_the_checkpoint(exact, int8, demo, demo_set, monkeypatch):
    monkeypatch.setattr(module, "export_graph", export_by_copying(demo_set))
    wanted = Comparison(int8, None, TEXTS, 2, (0, 1))
    assert wanted.needs_checkpoint
    found = run(wanted, demo)
    assert found.reference == "fp32" and found.words.utterances == 4
    against_set = run(Comparison(int8, exact, TEXTS, 2, (0, 1)))
    assert replace(found, reference="") == replace(against_set, reference="")
    with pytest.raises(UsageError, match="--checkpoint"):
        run(wanted)


def test_a_set_is_no_distance_from_itself(exact):
    found = run(Comparison(exact, exact, TEXTS, 2, (0,)))
    assert (found.top1, found.hidden_snr_db, found.mcd_db) == (1.0, 200.0, 0.0)
    assert GATES["fp32"].passes(found)


def test_sets_of_different_checkpoints_are_refused_by_name(exact, tiny_set):
    other = BuiltSet(tiny_set, Manifest.load(tiny_set))
    with pytest.raises(UsageError, match=r"demo_voice and the other set from tiny, whose files differ"):
        Comparison(exact, other, (), 1, (0,))


def test_another_checkpoint_than_the_sets_is_refused(exact, tiny, demo):
    require_checkpoint(demo, exact.manifest)
    with pytest.raises(UsageError, match=r"built from demo_voice, and .*tiny is another: .* differs"):
        require_checkpoint(tiny, exact.manifest)
    changed = replace(exact.manifest, checkpoint=CheckpointInfo("x", {**demo.hashes, "config.json": "0"}))
    with pytest.raises(UsageError, match=r"config\.json differs"):
        require_checkpoint(demo, changed)


def test_gpu_sets_need_the_checkpoint_and_are_made_again(exact, int8, demo, monkeypatch):
    """The plan of a GPU set is stood in for by the graph of an INT8 set."""
    gpu = BuiltSet(int8.path, replace(int8.manifest, backend="tensorrt"))
    wanted = Comparison(gpu, exact, TEXTS, 2, (0,))
    assert wanted.needs_checkpoint
    asked = []

    def again(path, manifest, checkpoint, work, progress):
        asked.append((path, checkpoint, list(work.iterdir())))
        return path / "gpt.onnx"

    monkeypatch.setattr(module, "type_again", again)
    found = run(wanted, demo)
    assert found.simulated
    assert asked == [(int8.path, demo, [])]
    with pytest.raises(UsageError, match="--checkpoint"):
        run(wanted)
