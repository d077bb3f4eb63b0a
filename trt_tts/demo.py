"""The demo voice that ships inside the package."""

from pathlib import Path


def demo_checkpoint() -> Path:
    """Folder of the demo voice's checkpoint."""
    return Path(__file__).parent / "demo_voice"
