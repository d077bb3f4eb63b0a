"""The toolchain: checkpoint -> ONNX -> engine sets. Installed as `trt_tts.builders`; needs the `build` extra."""
