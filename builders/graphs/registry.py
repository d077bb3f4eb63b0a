"""All graphs of an engine set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..checkpoint import Checkpoint
from .codec import codec_graph
from .dvae import codec_vq_graph, voice_encoder_graph
from .gpt import gpt_graph
from .graph import Graph
from .text_head import text_head_graph


@dataclass(frozen=True)
class GraphEntry:
    """How to make a graph, and whether the runtime keeps it loaded all the time."""

    make: Callable[[Checkpoint], Graph]
    resident: bool


GRAPHS = {
    "gpt": GraphEntry(gpt_graph, resident=True),
    "codec": GraphEntry(codec_graph, resident=True),
    "codec_vq": GraphEntry(codec_vq_graph, resident=False),
    "text_head": GraphEntry(text_head_graph, resident=False),
    "voice_encoder": GraphEntry(voice_encoder_graph, resident=False),
}
