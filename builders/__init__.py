"""The toolchain: checkpoint -> ONNX -> precision -> engines. Installed as `trt_tts.builders`; needs the `build` extra."""
