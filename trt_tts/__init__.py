"""trt-tts."""
