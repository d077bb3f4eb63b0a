"""`trt-tts voices`."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Any

import typer

from trt_tts.cli.console import note, out, print_json, progress, table
from trt_tts.cli.input_text import read_text
from trt_tts.cli.voice_choice import file_to_write, user_voices
from trt_tts.cli.voice_conversion import WRITTEN, read_voice, write_voice
from trt_tts.engine import Engine
from trt_tts.errors import UsageError, VoiceError
from trt_tts.manifest import VOICES, Manifest
from trt_tts.options import LARGEST_SEED, require_whole
from trt_tts.recording import MOST_SECONDS, read_recording
from trt_tts.sets import choose_set
from trt_tts.voice import Voice
from trt_tts.voice_file import AnyVoice, require_name, save_voice
from trt_tts.voices import VoiceBook

app = typer.Typer(rich_markup_mode="rich", no_args_is_help=False)
EngineOption = Annotated[Path | None, typer.Option("--engine", "-e", help="Engine-set folder.")]
FileOption = Annotated[
    Path | None, typer.Option("--voices", help="Voice file, .toml or .json; else $TRT_TTS_VOICES, ./voices.toml.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace a voice of this name.")]


@app.callback(invoke_without_command=True)
def voices(
    context: typer.Context, engine: EngineOption = None, voices: FileOption = None, as_json: JsonOption = False
) -> None:
    """List, make and convert voices. Without a command: list.

    [bold]Examples[/bold]

      trt-tts voices

      trt-tts voices new anna --seed 42

      trt-tts voices clone me.wav --text "the words of the recording" --name me

      trt-tts say "good morning" --voice me -o morning.wav
    """
    if context.invoked_subcommand is None:
        list_voices(engine, voices, as_json)
    elif engine or voices or as_json:
        raise UsageError(f"options stand after the command: trt-tts voices {context.invoked_subcommand} ...")


@app.command("list")
def list_voices(engine: EngineOption = None, voices: FileOption = None, as_json: JsonOption = False) -> None:
    """List the voices of an engine set, the first is the default, and of the voice file.

    [bold]Examples[/bold]

      trt-tts voices list

      trt-tts voices list --engine engines/cpu-int8 --json
    """
    path, book = _book(engine)
    users = user_voices(voices)
    if as_json:
        print_json({name: _facts(name, voice) for name, voice in (book.voices | users.voices).items()})
        return
    rows = table(f"Voices of {path}" + (f" and {users.file}" if users.file else ""), "name", "kind", "string", "in")
    for where, found in ((str(path), book.voices), (str(users.file), users.voices)):
        for name, voice in found.items():
            text = voice.to_string()
            rows.add_row(name, _kind(voice), f"{text[:24]}... ({len(text)} characters)", where)
    out.print(rows)
    if hidden := [name for name in book.voices if name in users.voices]:
        note(f"in both: {', '.join(hidden)}; --voice means the one of {users.file}")
    if not book.voices:
        note("no named voices; without --voice, say uses " + ("random voice 0" if book.statistics else "none"))


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Of the new voice.")],
    seed: Annotated[int | None, typer.Option(help="Same seed, same voice; without it a new one.")] = None,
    engine: EngineOption = None,
    voices: FileOption = None,
    force: ForceOption = False,
) -> None:
    """Draw a random voice from the checkpoint's speaker statistics and keep it under a name.

    [bold]Examples[/bold]

      trt-tts voices new anna

      trt-tts voices new 安娜 --seed 42 --voices my.toml
    """
    require_name(name)
    path, book = _book(engine)
    chosen = secrets.randbits(32) if seed is None else seed
    require_whole("seed", chosen, 0, LARGEST_SEED)
    voice = book.random(chosen)
    file = save_voice(file_to_write(voices), name, voice, force)
    if Manifest.load(path).prompt is not None:
        note("warning: this checkpoint was trained on its named voices only; a random one may be no voice")
    note(f"{name}: random voice {chosen}, written to {file}")


@app.command()
def show(name: str, engine: EngineOption = None, voices: FileOption = None, as_json: JsonOption = False) -> None:
    """Show a voice: its kind and its string, to share or to paste elsewhere.

    [bold]Examples[/bold]

      trt-tts voices show adam

      trt-tts voices show me --json
    """
    voice = _named(name, engine, voices)
    facts = _facts(name, voice)
    if as_json:
        print_json(facts)
        return
    for key, value in facts.items():
        out.print(f"{key}: {value}")


@app.command()
def convert(
    source: Annotated[str, typer.Argument(help="A voice string, or a .txt, .json, .npy, .pt or .pth file.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .txt, .json or .npy file; else the string is printed.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Keep it in the voice file under this name.")] = None,
    text: Annotated[str | None, typer.Option(help="Of an audio-sample string: the words of the recording.")] = None,
    voices: FileOption = None,
    force: ForceOption = False,
) -> None:
    """Convert a voice between the forms people share it in.

    [bold]Examples[/bold]

      trt-tts voices convert seed_1397.pt --name narrator

      trt-tts voices convert voice.txt -o voice.npy

      trt-tts voices convert sample.txt --text "the words of the recording" --name me
    """
    if output is not None and output.suffix.lower() not in WRITTEN:
        raise UsageError(f"cannot write {output.name!r}: the file's ending must be one of {', '.join(WRITTEN)}")
    if name is not None:
        require_name(name)
    voice = read_voice(source, text)
    if output is not None:
        write_voice(output, voice)
        note(f"written to {output}")
    if name is not None:
        note(f"{name}: written to {save_voice(file_to_write(voices), name, voice, force)}")
    if output is None and name is None:
        out.print(voice.to_string())


@app.command()
def clone(
    recording: Annotated[Path, typer.Argument(help="A .wav, .flac, .ogg or .mp3 file of 1 to 20 seconds.")],
    name: Annotated[str, typer.Option(help="Of the new voice.")],
    text: Annotated[str | None, typer.Option(help="The words of the recording; - reads standard input.")] = None,
    text_file: Annotated[Path | None, typer.Option("--text-file", help="Read them from a file.")] = None,
    engine: EngineOption = None,
    voices: FileOption = None,
    force: ForceOption = False,
) -> None:
    """Take a voice from a recording. Clear speech without music or noise, 5 to 10 seconds, does best.

    [bold]Examples[/bold]

      trt-tts voices clone me.wav --text "the words of the recording" --name me

      trt-tts say "good morning" --voice me -o morning.wav
    """
    require_name(name)
    missing = "give the words of the recording: --text, - for standard input, or --text-file F"
    transcript = read_text(text, text_file, missing, "--text-file")
    samples, rate = read_recording(recording)
    choice = choose_set(engine)
    note(f"engine set: {choice.path} ({choice.reason})")
    with progress() as stage:
        stage("loading")
        with Engine.load(choice.path) as loaded:
            stage("encoding")
            voice = loaded.clone_voice(samples, rate, transcript)
    file = save_voice(file_to_write(voices), name, voice, force)
    if Manifest.load(choice.path).prompt is not None:
        note("warning: this checkpoint was not trained on voice samples; expect no likeness")
    note(f"{name}: {voice.seconds:.1f} s of at most {MOST_SECONDS:g} s, written to {file}")


def _book(engine: Path | None) -> tuple[Path, VoiceBook]:
    path = choose_set(engine).path
    Manifest.load(path)
    return path, VoiceBook.load(path / VOICES)


def _named(name: str, engine: Path | None, voices: Path | None) -> AnyVoice:
    users = user_voices(voices)
    known: dict[str, AnyVoice] = users.voices if name in users.voices else {**_book(engine)[1].voices}
    if name not in known:
        raise VoiceError(f"no voice named {name!r}; trt-tts voices lists them")
    return known[name]


def _kind(voice: AnyVoice) -> str:
    return "speaker vector" if isinstance(voice, Voice) else "sample"


def _facts(name: str, voice: AnyVoice) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": name, "kind": _kind(voice)}
    if isinstance(voice, Voice):
        return facts | {"values": voice.vector.size, "string": voice.to_string()}
    return facts | {
        "seconds": round(voice.seconds, 2),
        "transcript": voice.transcript,
        "string": voice.to_string(),
    }


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="voices")
