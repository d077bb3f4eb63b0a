import logging

import numpy as np
import onnx
import pytest

from trt_tts.builders.quantize import BLOCK, quantize_linears


def dequantized(model, node, bits):
    """The weight [K, N] a MatMulNBits node multiplies with, from the operator's specification."""
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    attributes = {item.name: item.i for item in node.attribute}
    packed, scales = tensors[node.input[1]], tensors[node.input[2]].reshape(attributes["N"], -1)
    if bits == 4:
        packed = np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:2], -1)
    values = (packed.astype(np.float32) - 2 ** (bits - 1)) * scales[..., None]
    return values.reshape(attributes["N"], -1)[:, : attributes["K"]].T


@pytest.mark.parametrize(("precision", "bits"), [("int8", 8), ("int4", 4)])
def test_layers_are_quantized_within_half_a_step_and_nothing_else_is(demo_set, precision, bits):
    original = onnx.load(demo_set / "gpt.onnx")
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in original.graph.initializer}
    linears = [node.input[1] for node in original.graph.node if node.op_type == "MatMul" and node.input[1] in weights]
    heads = [node.op_type for node in original.graph.node].count("Gemm")
    model = quantize_linears(onnx.load(demo_set / "gpt.onnx"), precision)
    nodes = [node for node in model.graph.node if node.op_type == "MatMulNBits"]
    assert len(nodes) == len(linears) == 4 * 5
    assert [node.op_type for node in model.graph.node].count("Gemm") == heads
    for node, name in zip(nodes, linears, strict=True):
        attributes = {item.name: item.i for item in node.attribute}
        assert (attributes["bits"], attributes["block_size"], attributes["accuracy_level"]) == (bits, BLOCK[bits], 4)
        found, expected = dequantized(model, node, bits), weights[name]
        blocks = np.abs(expected).reshape(-1, BLOCK[bits], expected.shape[1])
        step = np.repeat(blocks.max(axis=1) / (2 ** (bits - 1) - 1), BLOCK[bits], axis=0)
        assert (np.abs(found - expected) <= 1.15 * step).all()
        assert np.abs(found - expected).mean() < 0.5 * step.mean()


def test_quantizing_leaves_the_programs_logging_alone(demo_set):
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    quantize_linears(onnx.load(demo_set / "gpt.onnx"), "int8")
    assert (root.handlers[:], root.level) == before


def test_weights_take_a_quarter_and_the_manifest_says_so(demo_set, demo_int8_set):
    from trt_tts.manifest import Manifest

    sizes = Manifest.load(demo_set).config.gpt
    linear = sizes.num_hidden_layers * (4 * sizes.hidden_size**2 + 3 * sizes.hidden_size * sizes.intermediate_size)
    full, small = (Manifest.load(path).graphs["gpt"] for path in (demo_set, demo_int8_set))
    assert full.weight_bytes["float32"] > 4 * linear
    assert small.weight_bytes["uint8"] == linear
    assert full.weight_bytes["float32"] - small.weight_bytes["float32"] == pytest.approx(4 * linear * 63 / 64, rel=0.01)
    assert small.operators["MatMulNBits"] == 4 * sizes.num_hidden_layers
