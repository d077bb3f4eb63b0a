"""A TensorRT set whose plans do nothing, of any sizes: what is left is what the runtime itself does."""

from __future__ import annotations

from pathlib import Path

from trt_tts.builders.profiles import Profile, profiles_of
from trt_tts.manifest import CheckpointInfo, GraphInfo, Limits, Manifest, Target, TensorInfo
from trt_tts.model_config import MAX_CANDIDATES, PENALTY_WINDOW, ModelConfig
from trt_tts.plan_info import PlanInfo, ProfileInfo, ShapeRange

ACTIVATIONS, PERSISTENT = 1 << 20, 512


def write_idle_set(folder: Path, config: ModelConfig, limits: Limits) -> Manifest:
    """Write the plans of `gpt` and `codec`; the manifest is returned, not written."""
    graphs = {name: _graph(folder, name, tensors, config, limits) for name, tensors in _tensors(config, limits).items()}
    return Manifest(
        product_version="0",
        created="",
        backend="tensorrt",
        precision="fp16",
        target=Target("tensorrt 11.0.0", "11.0.0", "gtx1650", "7.5"),
        limits=limits,
        checkpoint=CheckpointInfo("idle", {}),
        config=config,
        prompt=None,
        alphabet=None,
        graphs=graphs,
        files={},
    )


Tensors = tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]


def _tensors(config: ModelConfig, limits: Limits) -> dict[str, Tensors]:
    gpt = config.gpt
    recent, codes = ("B", PENALTY_WINDOW, gpt.num_vq), ("B", gpt.num_vq)
    cache = ("B", gpt.num_attention_heads, limits.capacity, gpt.head_dim)
    names = [f"{kind}_{i}" for i in range(gpt.num_hidden_layers) for kind in "kv"]
    inputs = {
        "codes_in": ("int32", ("B", "S", gpt.num_vq)),
        "rows": ("float32", ("B", "S", gpt.hidden_size)),
        "is_code": ("bool", ("B", "S")),
        "start": ("int32", ("B",)),
        "span": ("int32", ("N",)),
        "last": ("int32", ("B",)),
        "recent": ("int32", recent),
        "noise": ("float32", ("B", gpt.num_vq, MAX_CANDIDATES)),
        "sampling": ("float32", ("B", 4)),
        "allow_end": ("bool", ("B",)),
        **dict.fromkeys(names, ("float16", cache)),
    }
    outputs = {
        "codes": ("int32", codes),
        "hidden": ("float32", ("B", gpt.hidden_size)),
        "recent_out": ("int32", recent),
        **{f"{name}_out": ("float16", cache) for name in names},
    }
    codec = {"hidden": ("float32", (1, "T", gpt.hidden_size))}, {"wav": ("float32", (1, "512*T - 256"))}
    return {name: tuple(map(_infos, sides)) for name, sides in {"gpt": (inputs, outputs), "codec": codec}.items()}


def _infos(tensors: dict[str, tuple[str, tuple[int | str, ...]]]) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(name, dtype, shape) for name, (dtype, shape) in tensors.items())


def _graph(folder: Path, name: str, tensors: Tensors, config: ModelConfig, limits: Limits) -> GraphInfo:
    profiles = profiles_of(name, config, limits)
    _write_plan(folder / f"{name}.plan", tensors, profiles)
    described = tuple(ProfileInfo(item.name, _ranges(item), ACTIVATIONS, PERSISTENT) for item in profiles)
    plan = PlanInfo({}, described, 0, 0, {}, (), {}, None, None, 0.0, None, 0.0, 0)
    return GraphInfo((f"{name}.plan",), True, *tensors, {}, {}, 0.0, plan)


def _write_plan(file: Path, tensors: Tensors, profiles: tuple[Profile, ...]) -> None:
    from tensorrt.plan import Tensor, idle_plan

    described = [
        Tensor(item.name, mode, item.dtype, item.shape)
        for mode, side in zip(("INPUT", "OUTPUT"), tensors, strict=True)
        for item in side
    ]
    file.write_bytes(idle_plan(described, [_ranges(item) for item in profiles]))


def _ranges(profile: Profile) -> dict[str, ShapeRange]:
    return {name: (shapes.least, shapes.typical, shapes.most) for name, shapes in profile.shapes.items()}
