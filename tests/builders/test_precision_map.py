import re

import pytest

from trt_tts.builders.precision_map import PrecisionMap, load_precision_map, save_precision_map
from trt_tts.errors import UsageError

GRAPHS = ("gpt", "codec")


def load(tmp_path, text):
    file = tmp_path / "precision.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_precision_map(file, GRAPHS)


def test_rules_of_each_graph_in_the_order_of_the_file(tmp_path):
    maps = load(tmp_path, '[codec]\n"b" = "fp32"\n[gpt]\n"z.*" = "fp16"\n"a.*" = "int8"\n')
    assert maps == {
        "codec": PrecisionMap((("b", "fp32"),)),
        "gpt": PrecisionMap((("z.*", "fp16"), ("a.*", "int8"))),
    }


def test_last_matching_line_wins_and_others_are_not_pinned():
    rules = PrecisionMap((("layers.*", "fp16"), ("layers.1.*", "fp32"), ("*/MatMul", "int8"), ("layers.2.*", "fp16")))
    assert rules.of("layers.0.mlp/Mul") == "fp16"
    assert rules.of("layers.1.mlp/Mul") == "fp32"
    assert rules.of("layers.1.mlp/MatMul") == "int8"
    assert rules.of("layers.2.mlp/MatMul") == "fp16"
    assert rules.of("norm/Mul") is None
    assert PrecisionMap().of("norm/Mul") is None


def test_patterns_tell_upper_from_lower_case_and_match_whole_names():
    rules = PrecisionMap((("mlp", "fp16"), ("LAYERS.*", "fp16"), ("layers.?/Add_[23]", "fp32")))
    assert [rules.of(name) for name in ("layers.0.mlp", "mlp/Mul", "layers.0/Mul")] == [None] * 3
    assert [rules.of(f"layers.0/Add_{n}") for n in (2, 3, 4)] == ["fp32", "fp32", None]


def test_patterns_without_a_node_are_listed_in_order():
    rules = PrecisionMap((("z*", "fp16"), ("layers.*", "fp16"), ("a", "fp32")))
    assert rules.unused(["layers.0/Add", "b"]) == ["z*", "a"]
    assert rules.unused([]) == ["z*", "layers.*", "a"]
    assert PrecisionMap().unused([]) == []


def test_file_may_be_empty_or_start_with_a_byte_order_mark(tmp_path):
    assert load(tmp_path, "# nothing pinned\n") == {}
    assert load(tmp_path, b'\xef\xbb\xbf[gpt]\n"a" = "fp32"\n') == {"gpt": PrecisionMap((("a", "fp32"),))}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('[gtp]\n"a" = "fp32"\n', ["'gtp'", "gpt, codec"]),
        ('[gpt]\n"a" = "fp64"\n', ["'a'", "'fp64'", "fp32, fp16, int8"]),
        ('[gpt]\n"a" = "FP16"\n', ["'a'", "'FP16'", "fp32, fp16, int8"]),
        ('[gpt]\n"a" = 16\n', ["'a'", "16", "fp32, fp16, int8"]),
        ('[gpt]\n"a" = ["fp16"]\n', ["'a'", "['fp16']", "fp32, fp16, int8"]),
        ('[gpt]\nlayers.0 = "fp16"\n', ["'layers'", "fp32, fp16, int8"]),
        ('gpt = "fp16"\n', ["[gpt]", '"layers.0.*" = "fp16"']),
        ('[gpt]\n"a" = "fp16"\n"a" = "fp32"\n', ["is not TOML"]),
        ("[gpt\n", ["is not TOML"]),
        (b"[gpt]\n'\xff' = 'fp16'\n", ["is not TOML in UTF-8"]),
    ],
)
def test_wrong_files_are_explained(tmp_path, text, parts):
    with pytest.raises(UsageError) as error:
        load(tmp_path, text)
    for part in ("precision.toml", *parts):
        assert part in str(error.value)


def test_files_that_cannot_be_read_are_named(tmp_path):
    for file in (tmp_path / "absent.toml", tmp_path):
        with pytest.raises(UsageError, match=f"cannot read the precision map {re.escape(str(file))}: "):
            load_precision_map(file, GRAPHS)


def test_what_is_saved_is_read(tmp_path):
    maps = {"gpt": PrecisionMap((("layers.1.*", "fp16"), ("layers.1.mlp.down_proj/MatMul", "fp32")))}
    save_precision_map(tmp_path / "map.toml", maps)
    assert load_precision_map(tmp_path / "map.toml", ("gpt", "codec")) == maps


def test_any_pattern_comes_back_as_it_was_saved(tmp_path):
    rules = PrecisionMap((('a "quoted" name', "fp16"), ("back\\slash", "fp32"), ("层.*", "int8")))
    save_precision_map(tmp_path / "map.toml", {"gpt": rules})
    assert load_precision_map(tmp_path / "map.toml", ("gpt",)) == {"gpt": rules}
