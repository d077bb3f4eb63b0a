"""The emulated TensorRT: a plan is built, captured and replayed, against what the graph must compute."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from tests.cuda_emulator.compiling import build_library, compiler
from tests.cuda_emulator.driver import Driver, content
from tests.small_graph import HALF, node, write

FOLDER = Path(__file__).parent


def graph(folder: Path) -> Path:
    """Writes x into a cache at `start`, and doubles the cache."""
    nodes = [node("put/TensorScatter", "k_0 x start", "k_0_out"), node("sum/Add", "k_0_out k_0_out", "y")]
    inputs = {"x": (HALF, ["B", 1, 1, 2]), "start": (TensorProto.INT64, ["B"]), "k_0": (HALF, ["B", 1, 4, 2])}
    return write(folder, nodes, inputs, {"y": (HALF, ["B", 1, 4, 2]), "k_0_out": (HALF, ["B", 1, 4, 2])})


def build(trt, logger, file: Path) -> bytes:
    builder = trt.Builder(logger)
    network, config = builder.create_network(1), builder.create_builder_config()
    assert trt.OnnxParser(network, logger).parse_from_file(str(file))
    profile = builder.create_optimization_profile()
    for name, shape in {"x": (1, 1, 2), "start": (), "k_0": (1, 4, 2)}.items():
        profile.set_shape(name, (1, *shape), (1, *shape), (2, *shape))
    config.add_optimization_profile(profile)
    return builder.build_serialized_network(network, config)


def replays_in_place(folder: Path) -> None:
    """Runs in a process whose libcuda and tensorrt are the emulated ones."""
    import tensorrt as trt

    cuda, logger = Driver(), trt.Logger()
    cuda.start()
    context = trt.Runtime(logger).deserialize_cuda_engine(build(trt, logger, graph(folder))).create_execution_context()
    stream, at = cuda.stream(), {name: cuda.device(32) for name in ("x", "start", "k_0", "y")}
    assert context.set_optimization_profile_async(0, stream)
    assert not context.set_input_shape("x", (3, 1, 1, 2)), "outside the profile"
    for name, values in {"x": np.ones((2, 1, 1, 2)), "start": np.array([1, 3]), "k_0": np.zeros((2, 1, 4, 2))}.items():
        stored = values.astype(np.int64 if name == "start" else np.float16).tobytes()
        cuda.ok("cuMemcpyHtoD_v2", at[name], stored, len(stored))
        assert context.set_input_shape(name, values.shape)
    for name, address in at.items():
        assert context.set_tensor_address(name, address)
    assert not context.execute_async_v3(stream), "k_0_out has no address"
    assert context.set_tensor_address("k_0_out", at["y"])
    assert not context.execute_async_v3(stream), "k_0_out is not in place"
    assert context.set_tensor_address("k_0_out", at["k_0"])
    cuda.ok("cuStreamBeginCapture_v2", stream, 2)
    assert context.execute_async_v3(stream)
    captured = ctypes.c_ulonglong()
    cuda.ok("cuStreamEndCapture", stream, ctypes.byref(captured))
    replay = cuda.make("cuGraphInstantiateWithFlags", captured, 0)
    assert context.set_tensor_address("y", at["x"]), "the captured launch keeps its addresses"
    assert content(at["y"], 32) == b"\xff" * 32, "nothing runs before the graph is launched"
    cuda.ok("cuGraphLaunch", replay, stream)
    cuda.synchronize(stream)
    expected = np.zeros((2, 4, 2), np.float16)
    expected[0, 1] = expected[1, 3] = 1
    assert content(at["k_0"], 32) == expected.tobytes()
    assert content(at["y"], 32) == (2 * expected).tobytes()


@pytest.mark.skipif(compiler() is None, reason="no C compiler for the emulated CUDA driver")
def test_a_captured_launch_replays_in_place(tmp_path):
    library = build_library(tmp_path).parent
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library), "PYTHONPATH": str(FOLDER / "site")}
    command = [sys.executable, "-m", "tests.cuda_emulator.test_site", str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=FOLDER.parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


NAMES = """
import enum, inspect, json
import tensorrt
print(json.dumps({
    name: {key: getattr(kind, key).value if issubclass(kind, enum.Enum) else None
           for key in dir(kind) if not key.startswith("_") and (key.isupper() or not issubclass(kind, enum.Enum))}
    for name, kind in vars(tensorrt).items() if inspect.isclass(kind)
}))
"""


def test_the_stand_in_has_no_name_and_no_value_that_the_real_one_lacks():
    """Against NVIDIA's own package, which needs no GPU for that."""
    real = pytest.importorskip("tensorrt_rtx")
    environment = os.environ | {"PYTHONPATH": str(FOLDER / "site")}
    output = subprocess.run([sys.executable, "-c", NAMES], env=environment, capture_output=True, text=True, check=True)
    found = json.loads(output.stdout)
    assert {"Runtime", "ICudaEngine", "IExecutionContext", "BuilderFlag"} <= found.keys()
    for name, members in found.items():
        for member, value in members.items():
            known = getattr(getattr(real, name), member)
            assert value is None or int(known) == value, f"{name}.{member}"


if __name__ == "__main__":
    replays_in_place(Path(sys.argv[1]))
