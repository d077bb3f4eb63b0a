# Each target makes its environment when it is missing and works again afterwards. Windows: see README.md.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := engines/cpu-int8

.PHONY: demo test test-gpu lint clean

$(READY): pyproject.toml tools/install_torch_cpu.py
	@$(PYTHON) -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))" || \
		{ echo "Python 3.11, 3.12 or 3.13 is needed, $(PYTHON) is another; try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python tools/install_torch_cpu.py
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	touch $(READY)

$(DEMO)/manifest.json: | $(READY)
	TRT_TTS_CHECKPOINT=trt_tts/demo_voice $(BIN)/trt-tts build --backend cpu --precision int8 --force -o $(DEMO)

demo: $(DEMO)/manifest.json
	$(BIN)/trt-tts say "the engine is ready" --engine $(DEMO) --seed 7 -o ready.wav
	@echo 'listen to ready.wav, then try: $(BIN)/trt-tts say "good morning" --voice bella -o morning.wav'

test: $(READY)
	$(BIN)/python -m pytest

# On a machine with an NVIDIA GPU: the device layer and, where tensorrt is installed, the whole runtime.
test-gpu: $(READY)
	$(BIN)/python -m pytest -m gpu

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict trt_tts builders calibration

clean:
	rm -rf $(VENV) build dist *.egg-info ready.wav morning.wav $(DEMO)
