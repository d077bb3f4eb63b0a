"""What a context demands before it queues a launch. Each check raises `RefusedError`, whose text goes to the log."""

from collections.abc import Iterable, Sequence

from . import device
from .launch import Region
from .plan import Profile, Tensor
from .program import Binding
from .shapes import Shape

ALIGNMENT = 256


class RefusedError(Exception):
    """Why something is not done."""


def require_in_profile(tensor: Tensor, shape: Shape, profile: Profile, index: int) -> None:
    """Check a shape against the range that the plan was built for."""
    least, _, most = profile.get(tensor.name, (tensor.shape,) * 3)
    fits = len(shape) == len(least) and all(a <= b <= c for a, b, c in zip(least, shape, most, strict=True))
    if not fits:
        raise RefusedError(f"input {tensor.name} has shape {shape}; profile {index} allows {least} to {most}")


def require_aligned(name: str, address: int) -> None:
    """Check an address."""
    if not address or address % ALIGNMENT:
        raise RefusedError(f"the address {address:#x} of {name} is not aligned to {ALIGNMENT} bytes")


def require_memory(bindings: Sequence[Binding], activations: Region) -> None:
    """Check where tensors and activations lie: on the device, and apart from each other."""
    tensors = [Region(item.tensor.name, item.address, item.bytes) for item in bindings]
    for region in (*tensors, activations):
        require_aligned(region.name, region.address)
        if not device.is_live(region.address, region.bytes):
            raise RefusedError(f"{region.bytes} bytes of {region.name} at {region.address:#x} are not in device memory")
    _require_in_place(bindings)
    _require_apart(bindings, activations)


def _require_in_place(bindings: Iterable[Binding]) -> None:
    by_name = {item.tensor.name: item for item in bindings}
    for item in by_name.values():
        source = by_name.get(item.tensor.alias or "")
        if source and (source.address, source.shape) != (item.address, item.shape):
            raise RefusedError(
                f"{item.tensor.name} is at {item.address:#x} and {source.tensor.name} at {source.address:#x}: this "
                f"output must be written into its input"
            )


def _require_apart(bindings: Iterable[Binding], activations: Region) -> None:
    """Inputs may share memory with inputs; what is written may share it with nothing."""
    written = {item.tensor.name: item.tensor.alias for item in bindings if not item.tensor.is_input}
    in_place = {alias for alias in written.values() if alias}
    regions = [(activations.address, activations.address + activations.bytes, activations.name, True)]
    regions += [
        (item.address, item.end, item.tensor.name, item.tensor.name in written)
        for item in bindings
        if item.tensor.name not in in_place  # it is its output that stands for both
    ]
    reach, written_reach = (0, ""), (0, "")
    for start, end, name, is_written in sorted(regions):
        # `reach` is the furthest end of all regions so far, `written_reach` of the written ones.
        other = reach if is_written else written_reach
        if start < other[0]:
            raise RefusedError(f"{name} and {other[1]} overlap in device memory at {start:#x}")
        reach = max(reach, (end, name))
        if is_written:
            written_reach = max(written_reach, (end, name))
