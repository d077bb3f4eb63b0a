"""`python -m trt_tts`."""

from trt_tts.cli import main

if __name__ == "__main__":
    main()
