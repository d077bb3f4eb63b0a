from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts.errors import EngineSetError
from trt_tts.selftest import LEAST_SNR_DB, Case, judge, load_cases, run_cases, save_cases, snr_db, speaks

RANDOM = np.random.default_rng(0)
WAV = RANDOM.standard_normal((1, 4000)).astype(np.float32)
CODES = RANDOM.integers(0, 626, (3, 4)).astype(np.int32)


def case(*expected, calls=(), history=0):
    return Case("gpt", "decode-256", "3 x 1 of 256", 256, history, tuple(calls), tuple(expected))


def with_noise(signal, db):
    noise = RANDOM.standard_normal(signal.shape)
    noise *= np.sqrt(np.square(signal, dtype=np.float64).sum() / np.square(noise).sum() / 10 ** (db / 10))
    return (signal + noise).astype(signal.dtype)


def test_equal_results_pass_with_the_largest_distance():
    result = judge(case({"wav": WAV, "codes": CODES}), ({"wav": WAV.copy(), "codes": CODES.copy()},), "fp16")
    assert (result.graph, result.profile, result.shape) == ("gpt", "decode-256", "3 x 1 of 256")
    assert (result.snr_db, result.differing_codes, result.problem) == (200, 0, None)


@pytest.mark.parametrize("precision", LEAST_SNR_DB)
def test_noise_passes_down_to_the_limit_of_the_precision(precision):
    least = LEAST_SNR_DB[precision]
    passed = judge(case({"wav": WAV}), ({"wav": with_noise(WAV, least + 1)},), precision)
    failed = judge(case({"wav": WAV}), ({"wav": with_noise(WAV, least - 1)},), precision)
    assert passed.problem is None
    assert passed.snr_db == pytest.approx(least + 1, abs=0.2)
    assert f"{least - 1:.1f}"[:2] in failed.problem
    assert f"{least:g}" in failed.problem
    assert failed.snr_db == pytest.approx(least - 1, abs=0.2)


def test_the_worst_result_of_all_calls_counts():
    good, bad = with_noise(WAV, 90), with_noise(WAV, 40)
    found = ({"wav": good, "hidden": good}, {"wav": good, "hidden": bad}, {"wav": good, "hidden": good})
    result = judge(case(*({"wav": WAV, "hidden": WAV},) * 3), found, "fp16")
    assert result.snr_db == pytest.approx(40, abs=0.2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_not_finite_fails_and_names_the_result(value):
    broken = WAV.copy()
    broken[0, 17] = value
    result = judge(case({"hidden": WAV, "wav": WAV}), ({"hidden": WAV, "wav": broken},), "int8")
    assert result.problem == "wav holds NaN or infinity"
    assert result.snr_db is None


def test_silence_fails_where_there_should_be_sound():
    result = judge(case({"wav": WAV}), ({"wav": np.full_like(WAV, 1e-7)},), "int8")
    assert result.problem == "wav is silent"
    assert result.snr_db is None


def test_silence_passes_where_silence_is_expected():
    silent = np.zeros_like(WAV)
    assert judge(case({"wav": silent}), ({"wav": silent},), "fp32").problem is None


def test_differing_codes_are_counted_over_all_calls_and_are_no_failure():
    other = CODES.copy()
    other[0, :2] += 1
    result = judge(
        case({"codes": CODES, "hidden": WAV}, {"codes": CODES}),
        ({"codes": other, "hidden": WAV}, {"codes": other}),
        "fp16",
    )
    assert (result.differing_codes, result.problem) == (4, None)


def test_a_result_the_set_does_not_test_is_ignored_and_a_missing_call_is_an_error():
    assert judge(case({"wav": WAV}), ({"wav": WAV, "more": WAV * 0},), "fp32").problem is None
    with pytest.raises(ValueError, match="shorter"):
        judge(case({"wav": WAV}, {"wav": WAV}), ({"wav": WAV},), "fp32")


@given(st.floats(-30, 150), st.sampled_from([np.float32, np.float16]), st.integers(0, 1000))
def test_snr_is_power_over_power_of_the_difference(db, dtype, seed):
    random = np.random.default_rng(seed)
    wanted = random.standard_normal(500)
    value = (wanted + random.standard_normal(500) * 10 ** (-db / 20)).astype(dtype)
    wanted = wanted.astype(np.float32)
    difference = wanted.astype(np.float64) - value.astype(np.float64)
    with np.errstate(divide="ignore"):
        expected = 20 * np.log10(np.linalg.norm(wanted.astype(np.float64)) / np.linalg.norm(difference))
    assert snr_db(wanted, value) == pytest.approx(min(expected, 200), abs=1e-6)


def test_snr_is_200_at_most():
    assert snr_db(WAV, WAV) == snr_db(WAV * 0, WAV * 0) == 200
    assert snr_db(WAV.astype(np.float64), WAV * (1 + 1e-12)) == 200


@pytest.mark.parametrize(
    ("samples", "expected"),
    [([0.0, 1e-6], False), ([0.0, -0.1], True), ([0.1, np.nan], False), ([0.1, -np.inf], False)],
)
def test_speaking_is_finite_and_not_silent(samples, expected):
    assert speaks(np.array(samples, np.float32)) is expected


@given(st.integers(0, 100), st.integers(1, 3), st.integers(0, 64))
def test_caches_are_the_same_each_time_bounded_and_empty_after_the_history(index, rows, history):
    first, again, other = (case(history=history).cache(i, rows, 4, 64, 16) for i in (index, index, index + 1))
    assert first.shape == (rows, 4, 64, 16)
    assert first.dtype == np.float32
    assert np.array_equal(first, again)
    assert np.abs(first).max() <= 12
    assert np.array_equal(first, first.astype(np.float16))
    assert not first[:, :, history:].any()
    if history:
        values = first[:, :, :history]
        assert values.std() == pytest.approx(1.0 if index % 2 else 2.0, rel=5 / np.sqrt(2 * values.size))
        assert not np.array_equal(first, other)


def test_caches_begin_alike_whatever_their_capacity():
    short, long = (case(history=30).cache(1, 2, 4, capacity, 16) for capacity in (32, 2048))
    assert np.array_equal(short, long[:, :, :32])


def saved_cases():
    feed = {"codes_in": CODES[:, None], "is_code": np.ones((3, 1), np.bool_), "rows": WAV[:, None, :64]}
    return [
        case(
            {"codes": CODES, "hidden": WAV},
            {"codes": CODES + 1},
            calls=(feed, {**feed, "start": CODES[:, 0]}),
            history=254,
        ),
        Case("codec", "window", "7 steps", 0, 0, ({"hidden": WAV[None]},), ({"wav": WAV},)),
        *(
            Case("voice_encoder", "recording", f"{i}", 0, 0, ({"wav": WAV[:, :i]},), ({"codes": CODES},))
            for i in range(1, 11)
        ),
    ]


def test_cases_come_back_as_they_were_saved(tmp_path):
    saved = saved_cases()
    save_cases(saved, tmp_path)
    loaded = load_cases(tmp_path)
    assert len(loaded) == len(saved)
    for a, b in zip(saved, loaded, strict=True):
        assert (a.graph, a.profile, a.shape, a.span, a.history) == (b.graph, b.profile, b.shape, b.span, b.history)
        for kind in ("calls", "expected"):
            for wanted, found in zip(getattr(a, kind), getattr(b, kind), strict=True):
                assert wanted.keys() == found.keys()
                for name, value in wanted.items():
                    assert found[name].dtype == value.dtype
                    assert np.array_equal(found[name], value)


def damage(file, how):
    data = file.read_bytes()
    if how == "missing":
        file.unlink()
    elif how == "array":
        with file.open("wb") as handle:
            np.save(handle, WAV)
    elif how == "other arrays":
        with file.open("wb") as handle:
            np.savez(handle, wav=WAV)
    elif how == "other json":
        with file.open("wb") as handle:
            np.savez(handle, cases=np.array('[{"count": 1, "graph": "gpt"}]'))
    else:
        file.write_bytes({"empty": b"", "text": b"no archive", "truncated": data[: len(data) // 2], "bits": b""}[how])
    if how == "bits":
        middle = len(data) // 2
        file.write_bytes(data[:middle] + bytes(255 - byte for byte in data[middle : middle + 64]) + data[middle + 64 :])


@pytest.mark.parametrize(
    "how", ["missing", "empty", "text", "truncated", "bits", "array", "other arrays", "other json"]
)
def test_a_missing_or_damaged_file_is_named_with_what_to_do(how, tmp_path):
    save_cases(saved_cases(), tmp_path)
    damage(tmp_path / "selftest.npz", how)
    with pytest.raises(EngineSetError, match=r"selftest\.npz is missing or damaged.*Build the set again"):
        load_cases(tmp_path)


def test_cases_are_run_one_by_one_with_progress():
    cases, said = [case({"wav": WAV}), case({"wav": WAV})], []
    results = run_cases(cases, lambda item: ({"wav": WAV if item is cases[0] else -WAV},), "int8", said.append)
    assert next(results).problem is None
    assert len(said) == 1
    assert "gpt" in said[0]
    assert next(results).problem is not None
    assert len(said) == 2


def test_codes_alone_fail_when_too_many_differ():
    wanted = np.arange(100, dtype=np.int32)
    only_codes = replace(case(), expected=({"ids": wanted},))
    few, many = wanted.copy(), wanted.copy()
    few[:20], many[:30] = -1, -1
    assert judge(only_codes, ({"ids": few},), "fp16").problem is None
    assert judge(only_codes, ({"ids": few},), "fp16").snr_db is None
    assert "30 of 100 codes differ" in judge(only_codes, ({"ids": many},), "fp16").problem
