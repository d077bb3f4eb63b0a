"""Activation statistics for INT8 engines: nothing here yet. Installed as `trt_tts.calibration`."""
