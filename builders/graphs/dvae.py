"""The `codec_vq` and `voice_encoder` graphs: the discrete autoencoder, in both directions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trt_tts.model_config import ModelConfig

from ..checkpoint import Checkpoint
from .fsq import GroupedResidualFSQ
from .graph import Graph
from .layers import ConvStack, MelDecoder
from .spectrum import LogMel
from .vocos import Vocos, load_vocos
from .weights import load_state


class CodecVq(nn.Module):
    """Codes to sound (ChatTTS with `use_decoder=False`)."""

    def __init__(self, quantizer: GroupedResidualFSQ, decoder: MelDecoder, vocos: Vocos) -> None:
        super().__init__()
        self.quantizer, self.decoder, self.vocos = quantizer, decoder, vocos

    def forward(self, codes: Tensor) -> Tensor:
        """int32 [1, 4, T] -> wav [1, 256 * (2T - 1)]."""
        return self.vocos(self.decoder(self.quantizer.decode(codes)))


class VoiceEncoder(nn.Module):
    """A recording to codes, for voice prompts."""

    coef: Tensor

    def __init__(self, sizes: ModelConfig, log_mel: LogMel, quantizer: GroupedResidualFSQ) -> None:
        super().__init__()
        wide, mels = sizes.dvae.encoder.idim, sizes.vocos.feature_extractor.n_mels
        self.preprocessor_mel = log_mel
        self.register_buffer("coef", torch.empty(1, mels, 1))
        self.downsample_conv = nn.Sequential(
            nn.Conv1d(mels, wide, 3, padding=1), nn.GELU(), nn.Conv1d(wide, wide, 4, stride=2, padding=1), nn.GELU()
        )
        self.encoder = ConvStack(sizes.dvae.encoder)
        self.quantizer = quantizer

    def forward(self, wav: Tensor) -> Tensor:
        """[1, samples] -> codes int32 [1, 4, T], T = (samples // 256 + 1) // 2."""
        latent = self.encoder(self.downsample_conv(self.preprocessor_mel(wav) / self.coef))
        return self.quantizer.encode(latent.transpose(1, 2))


def codec_vq_graph(checkpoint: Checkpoint) -> Graph:
    """The `codec_vq` graph."""
    sizes, tensors = checkpoint.config, checkpoint.tensors["dvae"]
    decoder = MelDecoder(sizes.dvae.decoder, sizes.vocos.feature_extractor.n_mels)
    load_state(decoder, tensors, prefixes=("coef", "decoder.", "out_conv."))
    random, codes = torch.Generator().manual_seed(0), sizes.gpt.num_audio_tokens - 1
    return Graph(
        name="codec_vq",
        module=CodecVq(_quantizer(checkpoint), decoder, load_vocos(checkpoint)).eval(),
        outputs=("wav",),
        dynamic={"codes": {2: "T"}},
        samples=tuple(
            {"codes": torch.randint(0, codes, (1, sizes.gpt.num_vq, steps), generator=random).int()}
            for steps in (7, 1, 2, 64)
        ),
    )


def voice_encoder_graph(checkpoint: Checkpoint) -> Graph:
    """The `voice_encoder` graph."""
    sizes, tensors = checkpoint.config, checkpoint.tensors["dvae"]
    mel = "preprocessor_mel.mel_spec."
    window, filterbank = tensors[f"{mel}spectrogram.window"], tensors[f"{mel}mel_scale.fb"]
    log_mel = LogMel(sizes.vocos.feature_extractor, torch.from_numpy(window), torch.from_numpy(filterbank))
    encoder = VoiceEncoder(sizes, log_mel, _quantizer(checkpoint))
    load_state(encoder, tensors, prefixes=("coef", "downsample_conv.", "encoder."))
    random = torch.Generator().manual_seed(0)
    return Graph(
        name="voice_encoder",
        module=encoder.eval(),
        outputs=("codes",),
        dynamic={"wav": {1: "samples"}},
        samples=tuple({"wav": 0.1 * torch.randn(1, count, generator=random)} for count in (4000, 24_000, 5121)),
    )


def _quantizer(checkpoint: Checkpoint) -> GroupedResidualFSQ:
    quantizer = GroupedResidualFSQ(checkpoint.config.dvae.vq)
    prefix = "vq_layer.quantizer."
    return load_state(quantizer, checkpoint.tensors["dvae"], prefixes=(prefix,), strip=prefix)
