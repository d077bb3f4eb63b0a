"""Compares the planner's activation memory with what NVIDIA's builder reports, at points that a set does not build.

Published sizes, random weights, TensorRT-RTX ahead of time for compute capability 7.5; no GPU is needed. About five
minutes. `python benchmarks/plan_accuracy.py [--json]`
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from trt_tts.builders.checkpoint import Checkpoint, load_checkpoint
from trt_tts.builders.export import export_graph
from trt_tts.builders.graphs.codec import codec_graph
from trt_tts.builders.graphs.gpt import gpt_graph
from trt_tts.builders.plan_job import PlanJob
from trt_tts.builders.plan_process import run_plan_job
from trt_tts.builders.planner import activation_bytes
from trt_tts.builders.precision_map import PrecisionMap
from trt_tts.builders.profiles import Profile, profiles_of
from trt_tts.builders.typed_graph import TypeRequest, write_typed
from trt_tts.manifest import Limits

CAPACITY = 2048
GPT_POINTS = [(rows, 1, span) for rows in (2, 4, 8) for span in (256, 1024, 2048)] + [
    (2, 64, 1024),
    (2, 128, 2048),
    (4, 32, 1024),
    (4, 128, 2048),
]
"""Rows, chunk and span."""
CODEC_POINTS = (32, 128, 512, 1024)
"""Steps of the window."""


def points(checkpoint: Checkpoint) -> Iterator[tuple[str, str, Profile]]:
    """Graph, what the point is, and the profile to build."""
    for rows, chunk, span in GPT_POINTS:
        limits = Limits(rows, CAPACITY, max(chunk, 2))
        *_, step = profiles_of("gpt", checkpoint.config, limits)
        yield "gpt", f"{rows} rows x {chunk} of {span}", _reshaped(step, chunk, span)
    for steps in CODEC_POINTS:
        (window,) = profiles_of("codec", checkpoint.config, Limits(1, CAPACITY, 128, codec_steps=steps))
        yield "codec", f"{steps} steps", window


def _reshaped(profile: Profile, chunk: int, span: int) -> Profile:
    """A decode profile of other chunk and span."""

    def most(name: str) -> tuple[int, ...]:
        shape = profile.shapes[name].most
        if name == "span":
            return (span,)
        return (shape[0], chunk, *shape[2:]) if name in ("codes_in", "rows", "is_code") else shape

    shapes = {}
    for name, old in profile.shapes.items():
        least = (span,) if name == "span" else old.least
        shapes[name] = replace(old, least=least, typical=most(name), most=most(name))
    return Profile("point", shapes)


def main() -> None:
    """Print a line per point."""
    from random_checkpoint import write_random_checkpoint

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoint = load_checkpoint(write_random_checkpoint(folder / "checkpoint"))
        typed = {}
        for graph in (gpt_graph(checkpoint, exact_cache=False), codec_graph(checkpoint)):
            export_graph(graph, folder)
            request = TypeRequest("fp16", PrecisionMap(), None, CAPACITY, fp32_products=False)
            (folder / "typed").mkdir(exist_ok=True)
            typed[graph.name] = write_typed(graph.name, folder / f"{graph.name}.onnx", folder / "typed", request, {})
        for graph_name, point, profile in points(checkpoint):
            source, plan = str(typed[graph_name].file), str(folder / "plan")
            job = PlanJob(graph_name, source, plan, "tensorrt_rtx", "7.5", (profile,), 3 << 30, None)
            built = run_plan_job(job, folder / "log", lambda stage: None).memory.activations[0]
            predicted = activation_bytes(graph_name, profile, checkpoint.config, "fp16")
            found.append({"graph": graph_name, "point": point, "predicted": predicted, "built": built})
            if not as_json:
                sizes = f"{predicted / 1e6:8.2f} {built / 1e6:8.2f} MB"
                print(f"{graph_name:6} {point:20} {sizes} {predicted / built - 1:+.1%}", flush=True)
    if as_json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
