"""Prefill: a prompt goes through the plan in chunks, one row at a time."""

from __future__ import annotations

from trt_tts.backend import F32, I32, Flags
from trt_tts.gpu.caches import Caches
from trt_tts.gpu.plan import Plan
from trt_tts.gpu.tensors import Staging, Tensors
from trt_tts.manifest import Limits
from trt_tts.model_config import GptConfig

PREFILL = "prefill"
"""The profile."""
_CHUNK = ("is_code", "codes_in", "rows")
"""Inputs as long as the chunk."""
_OUTPUTS = ("codes", "hidden", "recent_out")


class Prefill:
    """Queues one chunk."""

    def __init__(self, plan: Plan, sizes: GptConfig, limits: Limits) -> None:
        """Make the context. Errors as `Plan.context`."""
        self._device, self._sizes, self._limits = plan.device, sizes, limits
        self.context = plan.context(PREFILL)

    def bind(self, tensors: Tensors, span: int, caches: Caches) -> None:
        """Fix what never changes: `span` is the address of 0, 1, 2, ..., int32 [C]."""
        self.tensors, self._caches = tensors, caches
        fixed = {name: block.shape for name, block in tensors.blocks.items() if name not in (*_CHUNK, *_OUTPUTS)}
        cache = (1, self._sizes.num_attention_heads, self._limits.capacity, self._sizes.head_dim)
        self.context.bind(fixed | dict.fromkeys(caches.names, cache), tensors.addresses | {"span": span})

    def run(self, row: int, span: int, staging: Staging, embedded: F32, codes: I32, is_code: Flags) -> None:
        """Queue a chunk of S positions whose small inputs are in `staging` already; arguments as `Runner.extend`."""
        steps = len(embedded)
        staging.arrays["rows"][0, :steps] = embedded
        staging.arrays["codes_in"][0, :steps] = codes
        staging.arrays["is_code"][0, :steps] = is_code
        staging.arrays["last"][0] = steps - 1
        # The rows are last, so that a short chunk is a short copy.
        unused = (self._limits.prefill_chunk - steps) * embedded.itemsize * self._sizes.hidden_size
        source = staging.up_to(staging.bytes - unused)
        self._device.driver.copy_up(self.tensors.address, source, self._device.stream)
        shapes = {name: (1, steps, *self.tensors.blocks[name].shape[2:]) for name in _CHUNK}
        self.context.bind(shapes | {"span": (span,)}, self._caches.addresses(row))
        self.context.enqueue()
