"""Activation statistics and INT8 scales of a checkpoint. Installed as `trt_tts.calibration`."""
