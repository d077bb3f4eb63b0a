"""Reads what goes into every linear of `gpt` while it runs over whole sentences."""

from __future__ import annotations

from pathlib import Path

import onnx

from trt_tts.builders.edited_session import load_structure, open_edited, set_outputs
from trt_tts.builders.samples import Spoken, forced_feed
from trt_tts.model_config import GptConfig
from trt_tts.progress import Progress

from .linear_input import F32, LinearInput


def collect_inputs(file: Path, gpt: GptConfig, spoken: list[Spoken], progress: Progress) -> dict[str, LinearInput]:
    """Linear of a layer, by node name -> what its input looks like, from one teacher-forced pass per sentence.

    The activations are those of step-by-step decoding, at a fraction of its cost.
    """
    model = load_structure(file)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    linears = [node for node in model.graph.node if node.op_type == "MatMul" and node.input[1] in weights]
    inputs = {node.name: node.input[0] for node in linears if node.name.startswith("layers.")}
    names = list(dict.fromkeys(inputs.values()))
    set_outputs(model, names)
    session = open_edited(model, file)
    found = {
        node.name: LinearInput(_array(weights[node.input[1]], file.parent)) for node in linears if node.name in inputs
    }
    for i, item in enumerate(spoken):
        progress(f"reading activations {i + 1}/{len(spoken)}")
        feed = forced_feed(item, gpt.num_attention_heads, gpt.num_hidden_layers)
        values = dict(zip(names, session.run(names, feed), strict=True))
        for node, tensor in inputs.items():
            found[node].add(values[tensor])
    return found


def _array(tensor: onnx.TensorProto, folder: Path) -> F32:
    array: F32 = onnx.numpy_helper.to_array(tensor, str(folder))
    return array
