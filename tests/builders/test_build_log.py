import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts.builders.build_log import LogLine, MemoryLines, cause_of, fold, read_memory

# From builds of the demo voice's gpt with TensorRT-RTX 1.7.1 for SM75; the verbose lines are a selection.
PROFILE = [
    ("verbose", "Total number of blocks in pre-optimized block assignment: 1"),
    ("info", "Total Host Persistent Memory: 80 bytes"),
    ("info", "Total Device Persistent Memory: {persistent} bytes"),
    ("info", "Max Scratch Memory: {scratch} bytes"),
    ("info", "[BlockAssignment] Started assigning block shifts. This will take 1 steps to complete."),
    ("info", "Total Activation Memory: {scratch} bytes"),
]
FP32_GEMM = (
    "IBuilder::buildSerializedNetwork: Error Code 1: Myelin ([pass.cpp:337: check_turing_op_compatibility] Cannot "
    "compile operation 'decoder.decoder.decoder_block.0.pwconv1/MatMul' for Turing (SM75): FP32 GEMM is not supported. "
    "In compileGraph at /_src/optimizer/myelin/codeGenerator.cpp:2012)"
)
NO_DRIVER = (
    "[checkMacros.cpp::catchCudaError::250] Error Code 1: Cuda Runtime (In catchCudaError at "
    "/_src/common/dispatch/checkMacros.cpp:250 (cudaError 35: CUDA driver version is insufficient for CUDA runtime "
    "version))"
)


def log(*lines):
    return [LogLine(severity, text) for severity, text in lines]


def errors(*texts):
    return [LogLine("error", text) for text in texts]


def profile_lines(scratch, persistent=0):
    return log(*((severity, text.format(scratch=scratch, persistent=persistent)) for severity, text in PROFILE))


def test_memory_of_every_profile_is_read_in_order():
    lines = [
        *profile_lines(11_023_360, persistent=512),
        *profile_lines(8_748_032),
        *profile_lines(9_274_368, persistent=1024),
        *log(
            ("info", "Total Weights Memory: 9132544 bytes"), ("info", "Compiler backend is used during engine build.")
        ),
    ]
    assert read_memory(lines) == MemoryLines(
        weights=9_132_544, activations=(11_023_360, 8_748_032, 9_274_368), persistent=(512, 0, 1024), scratch=11_023_360
    )


def test_what_the_builder_does_not_say_is_zero():
    assert read_memory([]) == MemoryLines(weights=0, activations=(), persistent=(), scratch=0)
    assert read_memory(log(("info", "Total Activation Memory: none"))) == read_memory([])
    assert read_memory(log(("info", "Total Weights Memory: 7 bytes"))) == MemoryLines(7, (), (), 0)


@given(st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40)), max_size=8))
def test_memory_lines_are_found_among_others(figures):
    lines = [line for scratch, persistent in figures for line in profile_lines(scratch, persistent)]
    found = read_memory(lines)
    assert found.activations == tuple(scratch for scratch, _ in figures)
    assert found.persistent == tuple(persistent for _, persistent in figures)
    assert found.scratch == max((scratch for scratch, _ in figures), default=0)


@pytest.mark.case("E12")
def test_the_log_for_people_counts_repetitions_and_skipped_tactics():
    lines = log(
        ("info", "Detected 18 inputs and 13 output network tensors."),
        ("warning", "Skipping tactic 0x000000000000000e due to exception Cask convolution execution"),
        ("info", "Total Activation Memory: 8748032 bytes"),
        ("info", "Total Activation Memory: 8748032 bytes"),
        ("info", "Total Activation Memory: 8748032 bytes"),
        ("verbose", "Tactic 0x1 was a skipped tactic: not enough memory"),
        ("warning", "Total Activation Memory: 8748032 bytes"),
        ("error", "broken"),
        ("error", "broken"),
    )
    assert list(fold(lines)) == [
        "info: Detected 18 inputs and 13 output network tensors.",
        "info: Total Activation Memory: 8748032 bytes",
        "(the line above, 2 more times)",
        "warning: Total Activation Memory: 8748032 bytes",
        "error: broken",
        "(the line above, 1 more times)",
        "2 tactics were skipped",
    ]


def test_details_are_left_out_and_errors_never():
    lines = log(
        ("verbose", "Adding network input: codes_in with dtype: int32, dimensions: (-1, -1, 4)"),
        ("verbose", "Layer: __myl_Cast Host Persistent: 0 bytes Device Persistent: 0 bytes"),
        ("info", "Detected 18 inputs"),
        ("error", "Failed to open external file gpt.weights"),
        ("error", "WeightsContext.cpp:167: external weights are shorter than expected"),
    )
    assert list(fold(lines)) == [
        "info: Detected 18 inputs",
        "error: Failed to open external file gpt.weights",
        "error: WeightsContext.cpp:167: external weights are shorter than expected",
    ]


def test_an_empty_log_stays_empty():
    assert list(fold([])) == []


@given(st.lists(st.tuples(st.sampled_from(["error", "warning", "info"]), st.sampled_from("abc"))))
def test_folding_loses_no_line_that_is_neither_a_detail_nor_skipped(pairs):
    unfolded = []
    for text in fold(log(*pairs)):
        if text.startswith("(the line above, "):
            unfolded += [unfolded[-1]] * int(text.split()[3])
        else:
            unfolded.append(text)
    assert unfolded == [f"{severity}: {text}" for severity, text in pairs]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FP32_GEMM, ["Turing (SM75)", "decoder.decoder.decoder_block.0.pwconv1/MatMul", "FP32 GEMM", "fp16"]),
        (NO_DRIVER, ["no NVIDIA driver", "ahead of time", "tensorrt_rtx", "pip install tensorrt-rtx"]),
        (
            "createInferBuilder: Error Code 6: API Usage Error (CUDA initialization failure with error: 100: "
            "no CUDA-capable device is detected)",
            ["no NVIDIA driver"],
        ),
        ("[defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)", ["memory", "--max-batch"]),
        ("Requested amount of GPU memory (3221225472 bytes) could not be allocated.", ["memory", "--max-seconds"]),
        (
            "[virtualMemoryBuffer.cpp::resizePhysical::140] Error Code 2: OutOfMemory (no further information)",
            ["memory"],
        ),
        ("std::bad_alloc", ["memory"]),
        ("No importer registered for op: TensorScatter. Attempting to import as plugin.", ["TensorScatter", "10.15"]),
        (
            'ModelImporter.cpp:140: While parsing node number 7 [TensorScatter -> "k_0_out"]:',
            ["TensorScatter", "tensorrt_rtx 1.7"],
        ),
        (
            "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (Network has dynamic or shape inputs, but "
            "no optimization profile has been defined. In validate at /_src/optimizer/api/network.cpp:4023)",
            ["optimization profile", "report"],
        ),
        (
            "IRuntime::deserializeCudaEngine: Error Code 1: Serialization (Serialization assertion stdVersionRead == "
            "kSERIALIZATION_VERSION failed.Version tag does not match. Note: Current Version: 239, Serialized Engine "
            "Version: 236)",
            ["versions", "Reinstall"],
        ),
    ],
)
def test_a_known_cause_is_named_with_what_to_do(text, said):
    lines = [LogLine("info", "starting"), LogLine("warning", "out of memory soon"), *errors("something failed", text)]
    assert all(part in cause_of(lines) for part in said)


def test_an_unknown_cause_is_quoted_and_warnings_are_none():
    lines = [LogLine("warning", "out of memory"), *errors("Error Code 9: Skipped", "and another")]
    assert cause_of(lines) == "TensorRT says: Error Code 9: Skipped"


def test_without_an_error_no_cause_is_made_up():
    assert cause_of([LogLine("warning", "out of memory")]) == cause_of([]) == "TensorRT gave no reason"


def test_a_missing_driver_is_not_the_cause_where_the_builder_names_another_one():
    mismatch = "Network has dynamic or shape inputs, but no optimization profile has been defined."
    assert "optimization profile" in cause_of(errors(NO_DRIVER, mismatch))
    assert "FP32 GEMM" in cause_of(errors(NO_DRIVER, FP32_GEMM))


def test_a_node_name_with_braces_is_quoted_as_it_is():
    text = FP32_GEMM.replace("decoder.decoder.decoder_block.0.pwconv1/MatMul", "layer{0}/{x}")
    assert "layer{0}/{x}" in cause_of(errors(text))


def test_an_operator_that_the_real_parser_refuses_is_named():
    trt = pytest.importorskip("tensorrt_rtx")
    from onnx import TensorProto, helper

    lines = []

    class Logger(trt.ILogger):
        def __init__(self):
            trt.ILogger.__init__(self)

        def log(self, severity, text):
            if int(severity) < 2:
                lines.append(LogLine("error", text))

    logger = Logger()
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("NewestThing", ["x"], ["y"], name="node")], "graph", [x], [y])
    assert not parser.parse(helper.make_model(graph).SerializeToString())
    lines += errors(*(parser.get_error(i).desc() for i in range(parser.num_errors)))
    assert "operator NewestThing" in cause_of(lines)
