"""Weight-only blockwise quantization of the `gpt` linears for the CPU (ONNX Runtime's MatMulNBits).

Activations stay float32; the kernel quantizes them per block on the fly (accuracy level 4).
"""

from __future__ import annotations

import logging
from typing import Any

import onnx

BITS = {"int8": 8, "int4": 4}
BLOCK = {8: 64, 4: 32}
"""Weights per scale. At 128 the kernel rounds a batch differently from a single row, and requantizing the activations
blows that up to the size of the quantization noise; at these sizes rows come out equal."""
_ACCURACY_LEVEL = 4


def quantize_linears(model: onnx.ModelProto, precision: str) -> onnx.ModelProto:
    """Replace the layers' MatMuls with MatMulNBits; heads, embeddings and attention products stay float32.

    Args:
        model: a float32 `gpt` graph, with its weights loaded; changed in place.
        precision: "int8" or "int4".
    """
    nbits = _quantizer_module()
    bits = BITS[precision]
    heads = [node.name for node in model.graph.node if not node.name.startswith("layers.")]
    config = nbits.DefaultWeightOnlyQuantConfig(
        block_size=BLOCK[bits], is_symmetric=True, accuracy_level=_ACCURACY_LEVEL, bits=bits
    )
    quantizer = nbits.MatMulNBitsQuantizer(model, algo_config=config, nodes_to_exclude=heads)
    quantizer.process()
    quantized: onnx.ModelProto = quantizer.model.model
    return quantized


def _quantizer_module() -> Any:
    """Import the quantizer without letting it set up the whole program's logging, as it does."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    from onnxruntime.quantization import matmul_nbits_quantizer

    root.handlers[:] = handlers
    root.setLevel(level)
    return matmul_nbits_quantizer
