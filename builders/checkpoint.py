"""Reads a ChatTTS checkpoint folder in the published safetensors layout.

DIR/config.json                   optional: sizes other than the published ones, voices
DIR/SHA256SUMS                    optional: checked when present
DIR/asset/{Decoder,DVAE,Embed,Vocos}.safetensors
DIR/asset/gpt/{config.json,model.safetensors}
DIR/asset/tokenizer/tokenizer.json
DIR/asset/spk_stat.pt             optional: statistics for random voices
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trt_tts.errors import CheckpointError, VoiceError
from trt_tts.files import read_json, read_sums, sha256_of
from trt_tts.model_config import ConvStackConfig, GptConfig, ModelConfig
from trt_tts.text.prompt import CONTROL_TAGS, PROMPT_TOKENS, SPEAKER
from trt_tts.text.tokenizer import load_tokenizer
from trt_tts.voice import SpeakerStatistics, Voice

Array: TypeAlias = npt.NDArray[np.float32]
Shape: TypeAlias = tuple[int, ...]

TENSOR_FILES = {
    "decoder": "asset/Decoder.safetensors",
    "dvae": "asset/DVAE.safetensors",
    "embed": "asset/Embed.safetensors",
    "vocos": "asset/Vocos.safetensors",
    "gpt": "asset/gpt/model.safetensors",
}
GPT_CONFIG = "asset/gpt/config.json"
TOKENIZER = "asset/tokenizer/tokenizer.json"
SPEAKER_STATISTICS = "asset/spk_stat.pt"
_IGNORED = {"embed_tokens.weight"}


@dataclass(frozen=True)
class Checkpoint:
    """A validated checkpoint: float32 tensors with weight-norm folded, sizes, voices and file hashes."""

    path: Path
    config: ModelConfig
    tensors: Mapping[str, dict[str, Array]]
    """Per part ("gpt", "embed", "decoder", "dvae", "vocos"): tensor name -> array. Read anew at each access: in float32
    the published weights are 1.4 GB, and no graph needs all of them."""
    hashes: dict[str, str]
    """sha256 of every file that was read, by path inside the folder."""
    voices: dict[str, Voice]
    statistics: SpeakerStatistics | None
    prompt: str | None
    """Prompt template with `{text}`, where the checkpoint needs another than the published one."""
    alphabet: str | None
    """The characters the voice was trained on, where its tokenizer knows more."""

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name


class _Parts(Mapping[str, dict[str, Array]]):
    """The tensor files of a checkpoint."""

    def __init__(self, path: Path, config: ModelConfig) -> None:
        self._path, self._shapes = path, expected_shapes(config)

    def __getitem__(self, part: str) -> dict[str, Array]:
        return _fold_weight_norm(_read_tensors(self._path / TENSOR_FILES[part], self._shapes[part]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def check(self, part: str) -> None:
        """Raises CheckpointError unless the file holds every tensor; warns of others."""
        file, wanted = self._path / TENSOR_FILES[part], self._shapes[part]
        _fold_weight_norm(_read_tensors(file, wanted))
        unexpected = sorted(_names_in(file) - wanted.keys() - _IGNORED)
        if unexpected:
            warnings.warn(f"{file}: ignoring unexpected tensors {_some(unexpected)}", stacklevel=2)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read and check everything a build needs from `path`.

    Raises:
        CheckpointError: a file or tensor is missing, truncated, mis-shaped or does not match its hash.
    """
    path = path.resolve()
    _require_layout(path)
    extras = _extras(path)
    hashes = _hash_files(path, extras)
    config = _model_config(path, extras)
    _check_tokenizer(path, config.gpt)
    tensors = _Parts(path, config)
    for part in tensors:
        tensors.check(part)
    voices = _named_voices(path, extras, config.gpt.hidden_size)
    statistics = _speaker_statistics(path, extras, config.gpt.hidden_size)
    prompt, alphabet = (_text(path, extras, key) for key in ("prompt", "alphabet"))
    if prompt is not None and ("{text}" not in prompt or SPEAKER not in prompt):
        raise CheckpointError(f"{path / 'config.json'}: prompt is {prompt!r}; it must hold {{text}} and {SPEAKER}")
    return Checkpoint(path, config, tensors, hashes, voices, statistics, prompt, alphabet)


def load_config(path: Path) -> ModelConfig:
    """The sizes of a checkpoint, without reading its tensors.

    Raises:
        CheckpointError: the folder is no checkpoint, or its config is malformed.
    """
    path = path.resolve()
    _require_layout(path)
    return _model_config(path, _extras(path))


def expected_shapes(config: ModelConfig) -> dict[str, dict[str, Shape]]:
    """Name and shape of every tensor a checkpoint of these sizes holds, per part."""
    mel = config.vocos.feature_extractor
    bins = mel.n_fft // 2 + 1
    log_mel = {"mel_spec.mel_scale.fb": (bins, mel.n_mels), "mel_spec.spectrogram.window": (mel.n_fft,)}
    return {
        "gpt": _gpt_shapes(config.gpt),
        "embed": _embed_shapes(config.gpt),
        "decoder": _conv_decoder_shapes(config.decoder, mel.n_mels),
        "dvae": _dvae_shapes(config, log_mel),
        "vocos": _vocos_shapes(config, bins, log_mel),
    }


def _gpt_shapes(gpt: GptConfig) -> dict[str, Shape]:
    wide, inner = gpt.hidden_size, gpt.intermediate_size
    shapes: dict[str, Shape] = {"norm.weight": (wide,)}
    for i in range(gpt.num_hidden_layers):
        layer = f"layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{layer}{name}.weight"] = (wide,)
        for name in "qkvo":
            shapes[f"{layer}self_attn.{name}_proj.weight"] = (wide, wide)
        shapes[f"{layer}mlp.gate_proj.weight"] = shapes[f"{layer}mlp.up_proj.weight"] = (inner, wide)
        shapes[f"{layer}mlp.down_proj.weight"] = (wide, inner)
    return shapes


def _embed_shapes(gpt: GptConfig) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {"emb_text.weight": (gpt.num_text_tokens, gpt.hidden_size)}
    heads = {"head_text": gpt.num_text_tokens}
    for i in range(gpt.num_vq):
        shapes[f"emb_code.{i}.weight"] = (gpt.num_audio_tokens, gpt.hidden_size)
        heads[f"head_code.{i}"] = gpt.num_audio_tokens
    for name, rows in heads.items():
        shapes[f"{name}.parametrizations.weight.original0"] = (rows, 1)
        shapes[f"{name}.parametrizations.weight.original1"] = (rows, gpt.hidden_size)
    return shapes


def _conv_stack_shapes(prefix: str, stack: ConvStackConfig) -> dict[str, Shape]:
    hidden = stack.hidden
    shapes: dict[str, Shape] = {
        f"{prefix}conv_in.0.weight": (stack.bn_dim, stack.idim, 3),
        f"{prefix}conv_in.0.bias": (stack.bn_dim,),
        f"{prefix}conv_in.2.weight": (hidden, stack.bn_dim, 3),
        f"{prefix}conv_in.2.bias": (hidden,),
        f"{prefix}conv_out.weight": (stack.odim, hidden, 1),
    }
    for i in range(stack.n_layer):
        shapes |= _block_shapes(f"{prefix}decoder_block.{i}.", hidden, 4 * hidden, "weight")
    return shapes


def _block_shapes(prefix: str, wide: int, inner: int, scale: str) -> dict[str, Shape]:
    return {
        f"{prefix}dwconv.weight": (wide, 1, 7),
        f"{prefix}dwconv.bias": (wide,),
        f"{prefix}norm.weight": (wide,),
        f"{prefix}norm.bias": (wide,),
        f"{prefix}pwconv1.weight": (inner, wide),
        f"{prefix}pwconv1.bias": (inner,),
        f"{prefix}pwconv2.weight": (wide, inner),
        f"{prefix}pwconv2.bias": (wide,),
        f"{prefix}{scale}": (wide,),
    }


def _conv_decoder_shapes(stack: ConvStackConfig, mels: int) -> dict[str, Shape]:
    return {
        "coef": (1, mels, 1),
        "out_conv.weight": (mels, stack.odim, 3),
        **_conv_stack_shapes("decoder.", stack),
    }


def _dvae_shapes(config: ModelConfig, log_mel: dict[str, Shape]) -> dict[str, Shape]:
    dvae, mels = config.dvae, config.vocos.feature_extractor.n_mels
    wide, levels, group = dvae.encoder.idim, len(dvae.vq.levels), dvae.vq.dim // dvae.vq.G
    shapes = _conv_decoder_shapes(dvae.decoder, mels) | _conv_stack_shapes("encoder.", dvae.encoder)
    shapes |= {
        "downsample_conv.0.weight": (wide, mels, 3),
        "downsample_conv.0.bias": (wide,),
        "downsample_conv.2.weight": (wide, wide, 4),
        "downsample_conv.2.bias": (wide,),
    }
    shapes |= {f"preprocessor_mel.{name}": shape for name, shape in log_mel.items()}
    for g in range(dvae.vq.G):
        prefix = f"vq_layer.quantizer.rvqs.{g}."
        shapes |= {
            f"{prefix}project_in.weight": (levels, group),
            f"{prefix}project_in.bias": (levels,),
            f"{prefix}project_out.weight": (group, levels),
            f"{prefix}project_out.bias": (group,),
        }
    return shapes


def _vocos_shapes(config: ModelConfig, bins: int, log_mel: dict[str, Shape]) -> dict[str, Shape]:
    mel, net = config.vocos.feature_extractor, config.vocos.backbone
    shapes: dict[str, Shape] = {
        "backbone.embed.weight": (net.dim, mel.n_mels, 7),
        "backbone.embed.bias": (net.dim,),
        "head.out.weight": (2 * bins, net.dim),
        "head.out.bias": (2 * bins,),
        "head.istft.window": (mel.n_fft,),
    }
    for name in ("norm", "final_layer_norm"):
        shapes[f"backbone.{name}.weight"] = shapes[f"backbone.{name}.bias"] = (net.dim,)
    for i in range(net.num_layers):
        shapes |= _block_shapes(f"backbone.convnext.{i}.", net.dim, net.intermediate_dim, "gamma")
    return shapes | {f"feature_extractor.{name}": shape for name, shape in log_mel.items()}


def _require_layout(path: Path) -> None:
    if not path.is_dir():
        raise CheckpointError(f"no checkpoint folder at {path}. Get the published one: trt-tts fetch DIR")
    missing = [name for name in (*TENSOR_FILES.values(), TOKENIZER) if not (path / name).is_file()]
    if not missing:
        return
    if any((path / "asset").glob("*.pt")) and "asset/Decoder.safetensors" in missing:
        raise CheckpointError(
            f"{path} holds the old .pt layout of ChatTTS; trt-tts reads the safetensors layout. "
            f"Missing: {', '.join(missing)}. Download the current files: trt-tts fetch DIR"
        )
    raise CheckpointError(f"checkpoint {path} lacks {', '.join(missing)}. Download it again: trt-tts fetch {path}")


def _hash_files(path: Path, extras: dict[str, Any]) -> dict[str, str]:
    names = [*TENSOR_FILES.values(), TOKENIZER]
    optional = ("config.json", GPT_CONFIG, SPEAKER_STATISTICS, str(extras.get("voices")))
    names += [name for name in optional if (path / name).is_file()]
    hashes = {name: sha256_of(path / name) for name in names}
    for name, expected in read_sums(path, CheckpointError).items():
        if name in hashes and hashes[name] != expected:
            raise CheckpointError(
                f"{path / name} is damaged or was changed: SHA256SUMS says {expected}, the file has {hashes[name]}. "
                f"Download it again, or remove SHA256SUMS if the change is yours"
            )
    return hashes


def _check_tokenizer(path: Path, gpt: GptConfig) -> None:
    tokenizer = load_tokenizer(path / TOKENIZER)
    for token in (*PROMPT_TOKENS, *CONTROL_TAGS):
        tokenizer.special(token)
    if tokenizer.inner.get_vocab_size() > gpt.num_text_tokens:
        raise CheckpointError(
            f"{path / TOKENIZER} has {tokenizer.inner.get_vocab_size()} tokens, the model only {gpt.num_text_tokens}"
        )


def _text(path: Path, extras: dict[str, Any], key: str) -> str | None:
    value = extras.get(key)
    if value is not None and not isinstance(value, str):
        raise CheckpointError(f"{path / 'config.json'}: {key} is {value!r}; expected a string")
    return value


def _extras(path: Path) -> dict[str, Any]:
    file = path / "config.json"
    return read_json(file, CheckpointError) if file.exists() else {}


def _model_config(path: Path, extras: dict[str, Any]) -> ModelConfig:
    gpt = read_json(path / GPT_CONFIG, CheckpointError) if (path / GPT_CONFIG).is_file() else {}
    overrides = extras.get("gpt", {})
    if not isinstance(overrides, dict):
        raise CheckpointError(f"{path / 'config.json'}: gpt must be a JSON object, found {overrides!r}")
    return ModelConfig.from_json({**extras, "gpt": {**gpt, **overrides}}, str(path / "config.json"))


def _read_tensors(file: Path, shapes: dict[str, Shape]) -> dict[str, Array]:
    from safetensors import SafetensorError, safe_open

    tensors: dict[str, Array] = {}
    try:
        with safe_open(file, framework="numpy") as handle:
            names = set(handle.keys())
            missing = sorted(shapes.keys() - names)
            if missing:
                raise CheckpointError(f"{file}: {len(missing)} tensors are missing: {_some(missing)}")
            for name, shape in shapes.items():
                tensors[name] = _checked(handle.get_tensor(name), shape, f"{file}: tensor {name}")
    except (SafetensorError, TypeError, OSError) as error:
        raise CheckpointError(f"{file} is truncated or no safetensors file ({error}). Download it again") from error
    return tensors


def _names_in(file: Path) -> set[str]:
    from safetensors import safe_open

    with safe_open(file, framework="numpy") as handle:
        return set(handle.keys())


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _checked(value: npt.NDArray[Any], shape: Shape, what: str) -> Array:
    if value.shape != shape:
        raise CheckpointError(
            f"{what} has shape {value.shape}, expected {shape}. Sizes other than the published ones need a config.json"
        )
    if value.dtype not in (np.float16, np.float32):
        raise CheckpointError(f"{what} is {value.dtype}; expected float32 or float16")
    value = value.astype(np.float32)
    if not np.isfinite(value).all():
        raise CheckpointError(f"{what} holds NaN or infinite values")
    return value


def _fold_weight_norm(tensors: dict[str, Array]) -> dict[str, Array]:
    """w = g * v / |v|, the norm taken over all axes but the first (torch's weight_norm with dim 0)."""
    folded = {}
    for name, value in tensors.items():
        if name.endswith(".parametrizations.weight.original1"):
            gain = tensors[name.removesuffix("1") + "0"]
            norm = np.sqrt(np.square(value, dtype=np.float64).sum(axis=1, keepdims=True))
            if not norm.all():
                raise CheckpointError(f"tensor {name} holds a row of zeros, which weight-norm cannot scale")
            folded[name.replace(".parametrizations.weight.original1", ".weight")] = (gain * (value / norm)).astype(
                np.float32
            )
        elif not name.endswith(".parametrizations.weight.original0"):
            folded[name] = value
    return folded


def _named_voices(path: Path, extras: dict[str, Any], width: int) -> dict[str, Voice]:
    name = extras.get("voices")
    if name is None:
        return {}
    entries = read_json(path / str(name), CheckpointError)
    voices = {}
    for voice, entry in entries.items():
        try:
            voices[voice] = Voice.from_vector(entry["vector"], name=voice).checked(width)
        except (KeyError, TypeError, VoiceError) as error:
            raise CheckpointError(f"{path / str(name)}: voice {voice!r}: {error}") from error
    return voices


def _speaker_statistics(path: Path, extras: dict[str, Any], width: int) -> SpeakerStatistics | None:
    if "spk_stat" in extras:
        try:
            return SpeakerStatistics.from_string(extras["spk_stat"]).checked(width)
        except VoiceError as error:
            raise CheckpointError(f"{path / 'config.json'}: spk_stat: {error}") from error
    file = path / SPEAKER_STATISTICS
    if not file.is_file():
        return None
    import torch

    try:
        value = torch.load(file, map_location="cpu", weights_only=True)
        std, mean = value.float().reshape(-1).chunk(2)
        return SpeakerStatistics(std.numpy(), mean.numpy()).checked(width)
    except (RuntimeError, ValueError, AttributeError, EOFError, pickle.UnpicklingError, VoiceError) as error:
        raise CheckpointError(
            f"{file} is damaged or holds no speaker statistics of width {width}. Download it again: trt-tts fetch"
        ) from error
