"""`trt-tts say`."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from trt_tts.cli.console import err, note, progress
from trt_tts.cli.input_text import read_text
from trt_tts.cli.sound_output import STANDARD_OUTPUT, SoundOutput, Spoken
from trt_tts.cli.text_stages import print_stages
from trt_tts.cli.voice_choice import user_voices
from trt_tts.engine import Engine
from trt_tts.errors import UsageError
from trt_tts.model_config import SAMPLE_RATE
from trt_tts.options import SynthesisOptions
from trt_tts.progress import Progress
from trt_tts.sets import choose_set

_D = SynthesisOptions()
MOST_MEGABYTES = 1e9
NO_TEXT = 'give the text as an argument, or - for standard input, or --file F. Example: trt-tts say "hello"'


def say(
    text: Annotated[
        str | None, typer.Argument(help="What to say; - reads standard input. After -- it may begin with -.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the text from a file.")] = None,
    engine: Annotated[Path | None, typer.Option("--engine", "-e", help="Engine-set folder.")] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="A .wav, .flac or .ogg file; - writes to standard output. Default: speech.wav."
        ),
    ] = None,
    audio_format: Annotated[str, typer.Option("--format", help="On standard output: wav or raw (PCM16).")] = "wav",
    stream: Annotated[bool, typer.Option("--stream", help="Write sound as it comes, in little memory.")] = False,
    play: Annotated[
        bool, typer.Option("--play", help="Play sound as it comes; a file only where -o names one.")
    ] = False,
    lookahead: Annotated[
        int | None, typer.Option(help="Steps the codec waits for: fewer, sooner, less exact. Default: exact.")
    ] = None,
    rate: Annotated[int, typer.Option(help="Sampling rate in Hz, 8000 to 192000.")] = SAMPLE_RATE,
    trim: Annotated[bool, typer.Option("--trim", help="Cut silence off at both ends.")] = False,
    voice: Annotated[str | None, typer.Option(help="A named voice or a ChatTTS speaker string.")] = None,
    voices: Annotated[
        Path | None, typer.Option("--voices", help="File of named voices; else $TRT_TTS_VOICES, ./voices.toml.")
    ] = None,
    speed: Annotated[int, typer.Option(help="0 (slow) to 9 (fast).")] = _D.speed,
    seed: Annotated[int | None, typer.Option(help="Same seed, same speech; without it a new one.")] = None,
    temperature: Annotated[float, typer.Option(help="0 always takes the likeliest code.")] = _D.temperature,
    top_p: Annotated[float, typer.Option(help="Nucleus sampling, 0 to 1; 0 takes the likeliest code.")] = _D.top_p,
    top_k: Annotated[int, typer.Option(help="Candidates per code, up to 50; 1 takes the likeliest.")] = _D.top_k,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1: fewer repeats.")] = _D.repetition_penalty,
    max_steps: Annotated[int | None, typer.Option(help="Step limit of a segment; 46.875 steps are a second.")] = None,
    min_steps: Annotated[int, typer.Option(help="No end before this step.")] = _D.min_steps,
    refine: Annotated[bool, typer.Option("--refine", help="Let the model rewrite the text first.")] = _D.refine,
    oral: Annotated[int | None, typer.Option(help="With --refine: fillers, 0 to 9.")] = None,
    laugh: Annotated[int | None, typer.Option(help="With --refine: laughter, 0 to 2.")] = None,
    pause: Annotated[int | None, typer.Option(help="With --refine: pauses, 0 to 7.")] = None,
    normalize: Annotated[bool, typer.Option(help="Spell out numbers, fold unusual characters.")] = _D.normalize,
    use_decoder: Annotated[
        bool, typer.Option("--decoder/--dvae", help="Sound from hidden states or from codes.")
    ] = _D.use_decoder,
    show_text: Annotated[
        bool, typer.Option("--show-text", help="Print what becomes of the text, stage by stage, before it is spoken.")
    ] = False,
    language: Annotated[str, typer.Option(help="How numbers are read: auto, en or zh.")] = _D.language,
    threads: Annotated[int | None, typer.Option(help="CPU threads; without it all this process may use.")] = None,
    device: Annotated[int, typer.Option(help="Index of the GPU.")] = 0,
    memory_limit: Annotated[
        float | None, typer.Option(help="Most GPU memory to take, in MB; without it what is free.")
    ] = None,
) -> None:
    """Speak a text into a file or to standard output.

    Without --engine: $TRT_TTS_ENGINE, then the newest set in ./engines.

    [bold]Examples[/bold]

      trt-tts say "the engine is ready" -o ready.wav --seed 7

      trt-tts say --file letter.txt --voice bella -o letter.flac

      trt-tts say "it costs $5.50, 50% off" --show-text -o price.wav

      trt-tts say --file chapter.txt --stream --lookahead 12 -o - | ffplay -

      echo good morning | trt-tts say - -o - --format raw | aplay -f S16_LE -r 24000
    """
    stream = stream or play
    if trim and stream:
        raise UsageError("--trim needs the whole sound, which --stream and --play never have; leave one out")
    target = "speech.wav" if output is None and not play else output
    sound = SoundOutput(target, audio_format, rate, play)
    options = SynthesisOptions(
        speed=speed, oral=oral, laugh=laugh, pause=pause, temperature=temperature, top_p=top_p,
        top_k=top_k, repetition_penalty=repetition_penalty, max_steps=max_steps, min_steps=min_steps, seed=seed,
        refine=refine, normalize=normalize, use_decoder=use_decoder, lookahead=lookahead, language=language,
    )  # fmt: skip
    if memory_limit is not None and not 0 < memory_limit < MOST_MEGABYTES:
        raise UsageError(f"memory-limit is {memory_limit:g} MB; allowed: more than 0, less than {MOST_MEGABYTES:g}")
    words = read_text(text, file, NO_TEXT, "--file")
    users = user_voices(voices)
    choice = choose_set(engine)
    note(f"engine set: {choice.path} ({choice.reason})")
    with progress() as stage:
        stage("loading")
        limit = None if memory_limit is None else round(memory_limit * 1e6)
        with Engine.load(choice.path, device=device, threads=threads, memory_limit=limit) as loaded:
            options = options.override(voice=users.resolve(voice, list(loaded.voices)))
            if show_text:
                print_stages(loaded, words, options, err)
            stage("speaking")
            spoken = _speak(loaded, words, options, sound, stream, trim, stage)
            if lookahead is not None:
                note(_lookahead_line(loaded, lookahead, use_decoder))
    if refine:
        note(f"refined text: {' '.join(spoken.texts)}")
    for warning in spoken.warnings:
        note(f"warning: {warning}")
    written = f", written to {target}" if target not in (None, STANDARD_OUTPUT) else ""
    note(spoken.summary(stream) + written)


def _speak(
    engine: Engine, text: str, options: SynthesisOptions, sound: SoundOutput, stream: bool, trim: bool, stage: Progress
) -> Spoken:
    """Speak and write, piece by piece with `stream`."""
    spoken = Spoken()
    if not stream:
        audio = engine.synthesize(text, options, progress=stage)
        audio = audio.trimmed() if trim else audio
        spoken.add(audio)
        sound.save(audio)
        return spoken
    with closing(engine.stream(text, options)) as chunks, sound.open() as sink:
        for chunk in chunks:
            spoken.add(chunk)
            sink(chunk.samples)
    return spoken


def _lookahead_line(engine: Engine, lookahead: int, use_decoder: bool) -> str:
    steps, snr = engine.first_sound_steps(lookahead, use_decoder), engine.lookahead_snr(lookahead, use_decoder)
    loss = "exact" if snr == math.inf else f"{snr:.1f} dB above the difference from exact"
    return f"lookahead {lookahead}: first sound after {steps} steps, {loss}"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(say)
