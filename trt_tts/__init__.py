"""ChatTTS on small GPUs and plain CPUs: load an engine set and speak.

import trt_tts

engine = trt_tts.Engine.load("engines/cpu-int8")
engine.synthesize("The engine is ready.", seed=7).save("ready.wav")
"""

from trt_tts.audio import Audio
from trt_tts.engine import Engine, EngineInfo
from trt_tts.errors import (
    CapacityError,
    CheckpointError,
    CudaError,
    DeviceLostError,
    DeviceMemoryError,
    EngineSetError,
    ExportError,
    GenerationError,
    MissingDependencyError,
    TextError,
    TrtTtsError,
    UsageError,
    VoiceError,
)
from trt_tts.frontend import PreparedText
from trt_tts.options import SynthesisOptions
from trt_tts.version import __version__
from trt_tts.voice import Voice
from trt_tts.voice_file import read_voices, save_voice
from trt_tts.voice_sample import VoiceSample

__all__ = [
    "Audio",
    "CapacityError",
    "CheckpointError",
    "CudaError",
    "DeviceLostError",
    "DeviceMemoryError",
    "Engine",
    "EngineInfo",
    "EngineSetError",
    "ExportError",
    "GenerationError",
    "MissingDependencyError",
    "PreparedText",
    "SynthesisOptions",
    "TextError",
    "TrtTtsError",
    "UsageError",
    "Voice",
    "VoiceError",
    "VoiceSample",
    "__version__",
    "read_voices",
    "save_voice",
]
