"""Runs the command line inside the test's process: a second and a half faster than a new one."""

import contextlib
import io
import os
import signal
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

from trt_tts.cli.app import END_SIGNALS, main


@dataclass(frozen=True)
class Result:
    returncode: int
    stdout: str
    stderr: str


def trt_tts(*arguments, cwd=None, stdout=None) -> Result:
    """Exit code and output of `trt-tts ARGUMENTS`, which finds `stdout` as its standard output where it is given."""
    out, err, before = io.StringIO(), io.StringIO(), Path.cwd()
    argv, show = sys.argv, warnings.showwarning
    handlers = {number: signal.getsignal(number) for number in END_SIGNALS}
    sys.argv = ["trt-tts", *map(str, arguments)]
    try:
        os.chdir(cwd or before)
        with contextlib.redirect_stdout(stdout or out), contextlib.redirect_stderr(err):
            try:
                main()
                code = 0
            except SystemExit as end:
                code = end.code or 0
    finally:
        os.chdir(before)
        sys.argv, warnings.showwarning = argv, show
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return Result(code, out.getvalue(), err.getvalue())
