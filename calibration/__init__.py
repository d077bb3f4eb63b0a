"""Activation statistics for INT8. Installed as `trt_tts.calibration`."""
