"""The `trt-tts` command. To add a command: write a module here and register it in `app.py`."""

from trt_tts.cli.app import main

__all__ = ["main"]
