"""Typed forms of small graphs, for the tests of `to_half`."""

import numpy as np
import onnx

from tests.small_graph import FLOAT, HALF, named, node, types_of, write
from trt_tts.builders.export import save_model
from trt_tts.builders.precision import to_half
from trt_tts.builders.precision_map import PrecisionMap
from trt_tts.builders.ranges import record


def half(file, ranges=None, *rules):
    """The typed graph as a build writes it, and what was decided."""
    model, typing = to_half(file, PrecisionMap(rules), ranges or {})
    folder = file.parent / "typed"
    folder.mkdir(exist_ok=True)
    written = save_model(model, folder, file.stem)
    onnx.checker.check_model(written, full_check=True)
    return onnx.load(written), typing


def guarded(file, *feeds, rules=()):
    """As `half`, with the ranges that the feeds show."""
    return half(file, record(file, feeds), *rules)


def float_types(model, *names):
    """For each node, the set of float types among its inputs and outputs."""
    types, nodes = types_of(model), named(model)
    wanted = [nodes[name] for name in names]
    return [
        {types[item] for item in (*one.input, *one.output) if item and types[item] in (FLOAT, HALF)} for one in wanted
    ]


def interface(model):
    """Name, type and shape of every input and output."""
    return [
        [(item.name, item.type.tensor_type.elem_type, item.type.tensor_type.shape) for item in values]
        for values in (model.graph.input, model.graph.output)
    ]


def scaled(values, magnitude):
    """`values` whose largest magnitude is `magnitude`."""
    return np.float32(values / np.abs(values).max() * magnitude)


def linear(folder, weight):
    """A graph of one linear."""
    return write(folder, [node("p/MatMul", "x w", "y")], {"x": ["B", len(weight)]}, {"y": ["B", None]}, {"w": weight})
