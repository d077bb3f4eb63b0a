"""Moves outliers of a linear's input into its weight: channel j of the input is divided by a factor, row j of the
weight multiplied by it, so that the FP32 result stays what it is and INT8 has less to clip.

Xiao et al., "SmoothQuant" (2023). The division is folded into what computes the input: the norm before q, k, v and
before gate and up; v's part of the fused projection before o; up's part before down. Every output channel of a linear
has a weight scale of its own, so that a fold into a linear costs that linear nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from trt_tts.errors import ExportError
from trt_tts.model_config import GptConfig

from .export import save_model
from .free_memory import free_memory

Factors = dict[str, tuple[float, ...]]
"""Linear, by node name -> what each of the K channels of its input is divided by."""
_LINEAR = re.compile(r"(layers\.\d+\.)(self_attn\.qkv_proj|self_attn\.o_proj|mlp\.gate_up_proj|mlp\.down_proj)/MatMul")
_BEFORE = {
    "self_attn.qkv_proj": "input_layernorm",
    "self_attn.o_proj": "self_attn.qkv_proj",
    "mlp.gate_up_proj": "post_attention_layernorm",
    "mlp.down_proj": "mlp.gate_up_proj",
}
"""Linear -> the layer whose last channels are its input, up to products with what stays as it is."""


def linear_widths(gpt: GptConfig) -> dict[str, int]:
    """The linears of the layers, by node name -> input channels."""
    wide = {"mlp.down_proj": gpt.intermediate_size}
    return {
        f"layers.{i}.{kind}/MatMul": wide.get(kind, gpt.hidden_size)
        for i in range(gpt.num_hidden_layers)
        for kind in _BEFORE
    }


def write_smoothed(source: Path, factors: Factors, folder: Path) -> Path:
    """`source`, or where there are factors a copy of it in `folder` with these folded in."""
    if not factors:
        return source
    model = onnx.load(source)
    smooth(model, factors)
    file = save_model(model, folder, f"{source.stem}-smoothed")
    del model
    free_memory()
    return file


def smooth(model: onnx.ModelProto, factors: Factors) -> None:
    """Fold `factors` into the FP32 `gpt` graph `model`, whose weights are loaded; changes it in place.

    Raises:
        ExportError: a linear is not there, has another width, or a factor is not positive and finite.
    """
    weights = _Weights(model)
    for node, values in factors.items():
        factor = np.array(values, np.float32)
        match = _LINEAR.fullmatch(node)
        width = weights.width(node) if match else None
        if match is None or width != len(factor):
            raise ExportError(f"{node} cannot be smoothed by {len(factor)} factors. Calibrate this checkpoint anew")
        if not (np.isfinite(factor).all() and (factor > 0).all()):
            raise ExportError(f"{node}: a smoothing factor is not a positive number. Calibrate this checkpoint anew")
        own, before = weights.of(node), weights.of(f"{match[1]}{_BEFORE[match[2]]}")
        _replace(own, onnx.numpy_helper.to_array(own) * factor[:, None])
        divided = onnx.numpy_helper.to_array(before).copy()
        divided[..., -len(factor) :] /= factor
        _replace(before, divided)


class _Weights:
    """The constants that nodes multiply by; the exporter stores equal ones once, for several nodes."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.graph = model.graph
        self.nodes = {node.name: node for node in model.graph.node}
        self.stored = {tensor.name: tensor for tensor in model.graph.initializer}
        self.uses = Counter(name for node in model.graph.node for name in node.input)

    def width(self, name: str) -> int | None:
        """Input channels of a linear; None where there is no such linear."""
        node = self.nodes.get(name)
        tensor = self.stored.get(node.input[1]) if node else None
        return tensor.dims[0] if tensor else None

    def of(self, name: str) -> onnx.TensorProto:
        """The second input of a MatMul or of a norm's Mul, as a constant of this node alone."""
        node = next(self.nodes[item] for item in (name, f"{name}/MatMul", f"{name}/Mul") if item in self.nodes)
        tensor = self.stored[node.input[1]]
        if self.uses[tensor.name] == 1:
            return tensor
        self.uses[tensor.name] -= 1
        own = self.graph.initializer.add()
        own.CopyFrom(tensor)
        own.name = f"{node.name}.smoothed"
        node.input[1] = own.name
        self.stored[own.name], self.uses[own.name] = own, 1
        return own


def _replace(tensor: onnx.TensorProto, value: npt.NDArray[Any]) -> None:
    tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))
