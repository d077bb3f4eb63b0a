"""The Typer application: commands, `--debug`, and how errors end the program."""

from __future__ import annotations

import signal
import sys
import warnings
from typing import Annotated

import typer

from trt_tts.cli import bench, build, calibrate, doctor, export, fetch, inspect, plan, say, verify, voices
from trt_tts.cli.console import fail, note, use_replacement_characters
from trt_tts.errors import TrtTtsError
from trt_tts.version import __version__

END_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Of a program that is stopped, and whose terminal is closed; Windows has only the first."""
app = typer.Typer(
    name="trt-tts",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (plan, calibrate, build, say, inspect, verify, bench, voices, doctor, export, fetch):
    command.register(app)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"trt-tts {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """ChatTTS on small GPUs and plain CPUs.

    [bold]First steps[/bold]

      trt-tts build

      trt-tts say "the engine is ready" -o ready.wav

      trt-tts doctor
    """


def _end_orderly() -> None:
    """A stopped command, or one whose terminal is closed, removes its temporary files."""
    for number in END_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, signal.default_int_handler)


def main() -> None:
    """Run the command line: exit code 0, 1 for a failure, 2 for wrong usage."""
    use_replacement_characters()
    _end_orderly()
    warnings.showwarning = lambda message, *_: note(f"warning: {message}")
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    # Accepted anywhere: the command that just failed is repeated with --debug at its end.
    arguments = [item for item in arguments if item != "--debug"]
    try:
        app(args=arguments, prog_name="trt-tts")
    except TrtTtsError as error:
        if debug:
            raise
        fail(str(error), error.exit_code)
    except BrokenPipeError:
        sys.exit(1)
    except MemoryError:
        if debug:
            raise
        fail("out of memory. Close other programs, or use a smaller engine set", 1)
    except Exception as error:
        if debug:
            raise
        fail(f"internal error: {type(error).__name__}: {error}\nRun again with --debug for the traceback.", 1)
