"""What the package promises about itself."""

import importlib.metadata
import subprocess
import sys

import pytest

HEAVY = ("torch", "onnx", "onnxscript", "transformers", "trt_tts.builders", "trt_tts.calibration")


def loaded_after(code):
    script = f"import sys\n{code}\nprint(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


def test_base_install_needs_neither_torch_nor_onnx():
    requirements = [line for line in importlib.metadata.requires("trt-tts") if "extra ==" not in line]
    names = {line.split(">")[0].split("[")[0].strip().lower() for line in requirements}
    assert "onnxruntime" in names
    assert not names & {"torch", "onnx", "onnxscript", "transformers", "safetensors", "huggingface-hub"}


def test_no_extra_pulls_torch_by_accident():
    assert not [line for line in importlib.metadata.requires("trt-tts") if line.startswith("torch")]


def test_import_stays_light():
    loaded = loaded_after("import trt_tts")
    assert not loaded & {*HEAVY, "onnxruntime", "tokenizers", "soundfile", "typer", "rich"}


def test_speaking_from_the_command_line_never_imports_the_toolchain(demo_set, tmp_path):
    arguments = ["trt-tts", "say", "hello", "-e", str(demo_set), "-o", str(tmp_path / "a.wav")]
    call = "from trt_tts.cli import main\ntry:\n    main()\nexcept SystemExit as end:\n    assert not end.code"
    loaded = loaded_after(f"sys.argv = {arguments!r}\n{call}")
    assert (tmp_path / "a.wav").exists()
    assert "onnxruntime" in loaded
    assert not loaded & set(HEAVY)


def test_version_is_the_same_everywhere():
    import trt_tts

    shown = subprocess.run([sys.executable, "-m", "trt_tts", "--version"], capture_output=True, text=True, check=True)
    assert importlib.metadata.version("trt-tts") == trt_tts.__version__ == shown.stdout.split()[-1]


@pytest.mark.slow
def test_wheel_in_a_clean_environment_speaks_with_a_built_set(demo_int8_set, tmp_path):
    from pathlib import Path

    root = Path(__file__).parents[1]
    subprocess.run([sys.executable, "-m", "build", "--wheel", "-o", tmp_path / "dist", root], check=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "clean"], check=True)
    python = tmp_path / "clean" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    say = [python, "-m", "trt_tts", "say", "the engine is ready", "-e", demo_int8_set, "-o", tmp_path / "a.wav"]
    subprocess.run(say, check=True, cwd=tmp_path)
    assert (tmp_path / "a.wav").stat().st_size > 20_000
    build = subprocess.run(
        [python, "-m", "trt_tts", "build"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert build.returncode == 1
    assert "torch" in build.stderr
    assert "--torch-backend cpu torch" in build.stderr
    installed = subprocess.run([python, "-m", "pip", "list"], capture_output=True, text=True, check=True).stdout
    assert not {line.split()[0] for line in installed.splitlines()} & {"torch", "onnx", "onnxscript", "safetensors"}


def test_declared_onnxruntime_is_the_one_the_loader_and_doctor_name():
    from trt_tts.cpu.session import MINIMUM_RUNTIME

    assert f"onnxruntime>={MINIMUM_RUNTIME}" in importlib.metadata.requires("trt-tts")


def test_demo_voice_is_whole_and_carries_its_card():
    from trt_tts.demo import demo_checkpoint
    from trt_tts.errors import CheckpointError
    from trt_tts.files import read_sums, sha256_of

    sums = read_sums(demo_checkpoint(), CheckpointError)
    assert len(sums) >= 12
    assert {name: sha256_of(demo_checkpoint() / name) for name in sums} == sums
    assert "espeak-ng" in (demo_checkpoint() / "MODEL_CARD.md").read_text("utf-8")
    assert not (demo_checkpoint() / "training").exists()
