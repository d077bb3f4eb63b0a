"""The torch modules and their exports against the published implementation's vectors."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from tests.reference_case import REFERENCE, Reference, snr
from tests.sampler_truth import distribution
from trt_tts.builders.export import export_graph, save_model
from trt_tts.builders.graphs.fsq import GroupedResidualFSQ
from trt_tts.builders.graphs.gpt import gpt_graph
from trt_tts.builders.graphs.registry import GRAPHS
from trt_tts.builders.graphs.sampler import keep_candidates, penalise
from trt_tts.builders.graphs.spectrum import InverseSTFT, LogMel
from trt_tts.builders.graphs.weights import load_state
from trt_tts.errors import ExportError
from trt_tts.model_config import MelConfig, QuantizerConfig

FORBIDDEN = {"Trilu", "STFT", "DFT", "Loop", "If", "Scan", "Attention", "RandomNormal", "RandomUniform", "Multinomial"}


@pytest.fixture(params=["tiny", "demo_voice"])
def reference(request) -> Reference:
    fixture = {"tiny": "tiny_set", "demo_voice": "demo_set"}[request.param]
    return Reference.of(request.param, request.getfixturevalue(fixture))


def run(reference, graph, **inputs):
    session = onnxruntime.InferenceSession(reference.folder / f"{graph}.onnx")
    return session.run(None, inputs)


def test_codec_equals_the_published_waveform(reference):
    hidden = reference.vectors["greedy_spk_pen1.05_0_hidden"]
    assert snr(reference.vectors["codec_wav"], run(reference, "codec", hidden=hidden[None])[0][0]) > 100


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_shortest_waveforms_have_exact_length_and_finite_edges(reference, steps):
    hidden = reference.vectors["greedy_spk_pen1.05_0_hidden"][None, :steps]
    wav = run(reference, "codec", hidden=hidden)[0][0]
    expected = reference.vectors[f"codec_wav_{steps}steps"]
    assert wav.shape == expected.shape == (256 * (2 * steps - 1),)
    assert snr(expected, wav) > 100


@pytest.mark.parametrize("name", ["tiny", "demo"])
def test_mel_equals_the_published_one(name, request, tiny_set, demo_set):
    reference = Reference.of(*{"tiny": ("tiny", tiny_set), "demo": ("demo_voice", demo_set)}[name])
    codec = GRAPHS["codec"].make(request.getfixturevalue(name)).module
    hidden = torch.from_numpy(reference.vectors["greedy_spk_pen1.05_0_hidden"])[None]
    with torch.inference_mode():
        assert codec.decoder(hidden)[0].numpy() == pytest.approx(reference.vectors["codec_mel"], abs=1e-5)


def test_codec_vq_equals_the_published_waveform(reference):
    codes = np.ascontiguousarray(reference.vectors["greedy_spk_pen1.05_0_codes"].T[None])
    assert snr(reference.vectors["codec_vq_wav"], run(reference, "codec_vq", codes=codes)[0][0]) > 100


def test_voice_encoder_gives_the_published_codes(reference):
    codes = run(reference, "voice_encoder", wav=reference.vectors["encoder_wav"][None])[0][0]
    assert np.array_equal(codes, reference.vectors["encoder_codes"])


def test_text_head_continues_as_the_published_refine_pass(reference):
    from trt_tts import refine
    from trt_tts.cpu.session import open_session
    from trt_tts.manifest import TEXT_EMBEDDING, TOKENIZER
    from trt_tts.text.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(reference.folder / TOKENIZER)
    table = np.load(reference.folder / TEXT_EMBEDDING)
    head = open_session(reference.folder / "text_head.onnx", 2)
    runner, end = reference.runner(), tokenizer.special("[Ebreak]")
    refine._feed(runner, table, reference.vectors["refine_prompt_ids"].tolist(), first=True)
    found = []
    for _ in range(len(reference.vectors["refine_ids"])):
        inputs = {
            "hidden": runner.last_hidden[:1],
            "recent": np.full((1, 16, 1), -1, np.int32),
            "noise": np.zeros((1, 1, 50), np.float32),
            "sampling": np.array([[1e-3, 0.7, 20, 1.0]], np.float32),
            "allow_end": np.zeros(1, np.bool_),
        }
        found.append(int(head.run(["ids"], inputs)[0][0, 0]))
        refine._feed(runner, table, found[-1:], first=False)
    assert end not in found
    assert found == reference.vectors["refine_ids"].tolist()


def test_late_quantizer_numerics(tiny):
    sizes = QuantizerConfig(**{**vars(tiny.config.dvae.vq), "fsq": "late"})
    prefix = "vq_layer.quantizer."
    late = load_state(GroupedResidualFSQ(sizes), tiny.tensors["dvae"], (prefix,), strip=prefix)
    encoder, codec_vq = (GRAPHS[name].make(tiny).module for name in ("voice_encoder", "codec_vq"))
    encoder.quantizer = codec_vq.quantizer = late
    with np.load(REFERENCE / "tiny" / "vectors.npz") as vectors, torch.inference_mode():
        codes = encoder(torch.from_numpy(vectors["encoder_wav"])[None])[0].numpy()
        wav = codec_vq(torch.from_numpy(vectors["greedy_spk_pen1.05_0_codes"]).T[None])[0].numpy()
        assert (codes != vectors["encoder_codes"]).mean() > 0.5, "the two numerics must differ"
    with np.load(REFERENCE / "tiny" / "vectors_fsq_late.npz") as vectors:
        assert np.array_equal(codes, vectors["encoder_codes"])
        assert snr(vectors["codec_vq_wav"], wav) > 100


@pytest.mark.parametrize("fsq", ["early", "late"])
@pytest.mark.parametrize("levels", [(5, 5, 5, 5), (3, 5), (7, 3, 5)])
def test_quantizer_decodes_every_code_to_its_own_value(fsq, levels):
    sizes = QuantizerConfig(dim=2 * len(levels), levels=levels, G=2, R=1, fsq=fsq)
    group = GroupedResidualFSQ(sizes).rvqs[0]
    with torch.inference_mode():
        group.project_out.weight.copy_(torch.eye(len(levels)))
        group.project_out.bias.zero_()
        values = group.decode(torch.arange(int(np.prod(levels)))[None, :, None])[0].numpy()
    grid = [np.linspace(-1, 1, level) for level in levels]
    expected = np.stack(np.meshgrid(*grid[::-1], indexing="ij")[::-1], -1).reshape(-1, len(levels))
    assert values == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("case", range(5))
def test_sampler_keeps_the_published_distribution(reference, case):
    parameters = reference.cases["sampler_params_temperature_topp_topk_penalty"][case]
    logits = torch.from_numpy(reference.vectors["sampler_logits"])[:, None]
    recent = torch.from_numpy(reference.vectors["sampler_recent"])[:, -16:, None]
    temperature, top_p, top_k, penalty = torch.tensor(parameters)[:, None, None, None].unbind(0)
    scores = penalise(logits / temperature, recent, penalty)
    best, index = scores.topk(50, dim=2)
    chosen = torch.where(keep_candidates(scores, best, top_p, top_k), best, -torch.inf).softmax(2)
    found = torch.zeros_like(scores).scatter(2, index, chosen)[:, 0].numpy()
    expected = reference.vectors[f"sampler_probs_{case}"]
    assert found == pytest.approx(expected, abs=1e-6)
    for row in range(len(found)):
        restated = distribution(logits[row, 0].numpy(), recent[row, :, 0].numpy(), *parameters)
        assert restated == pytest.approx(expected[row], abs=1e-5)


@pytest.mark.parametrize("frames", [2, 3, 4, 5, 40])
def test_inverse_stft_equals_torch(frames):
    random = torch.Generator().manual_seed(frames)
    window = torch.hann_window(1024)
    spectrum = torch.randn(1, 513, frames, dtype=torch.complex64, generator=random)
    spectrum.imag[:, 0] = spectrum.imag[:, -1] = 0
    found = InverseSTFT(MelConfig(), window)(spectrum.real, spectrum.imag).numpy()
    expected = torch.istft(spectrum, 1024, 256, 1024, window, center=True).numpy()
    assert found.shape == expected.shape
    assert snr(expected, found) > 110


@pytest.mark.parametrize("samples", [513, 4000, 4096])
def test_log_mel_equals_torch(samples):
    random = torch.Generator().manual_seed(samples)
    wav, window = torch.randn(1, samples, generator=random), torch.hann_window(1024)
    filterbank = torch.rand(513, 100, generator=random)
    magnitude = torch.stft(wav, 1024, 256, window=window, center=True, return_complex=True).abs()
    expected = torch.log(torch.clamp(filterbank.t() @ magnitude, min=1e-5))
    with torch.inference_mode():
        assert LogMel(MelConfig(), window, filterbank)(wav).numpy() == pytest.approx(expected.numpy(), abs=1e-4)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.case("E4")
def test_op_census_and_names(reference, name):
    model = onnx.load(reference.folder / f"{name}.onnx")
    onnx.checker.check_model(reference.folder / f"{name}.onnx")
    operators = {node.op_type for node in model.graph.node}
    assert not operators & FORBIDDEN
    assert not any(attribute.HasField("g") for node in model.graph.node for attribute in node.attribute)
    assert {item.domain for item in model.opset_import} == {""}
    names = [node.name for node in model.graph.node]
    assert len(set(names)) == len(names)
    types = {onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128}
    assert not types & {tensor.data_type for tensor in model.graph.initializer}
    text = model.SerializeToString()
    assert b"site-packages" not in text
    assert b".py" not in text


def test_gpt_linears_and_their_weights_can_be_found_by_name(reference, request):
    model = onnx.load(reference.folder / "gpt.onnx")
    products = {node.name: node.input[1] for node in model.graph.node if node.op_type == "MatMul"}
    layers = len({name.split(".")[1] for name in products if name.startswith("layers.")})
    for i in range(layers):
        for part in ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"):
            assert products[f"layers.{i}.{part}/MatMul"] == f"layers.{i}.{part}.weight"
    assert [node.op_type for node in model.graph.node].count("TensorScatter") == 2 * layers


@pytest.mark.slow
def test_form_with_a_fixed_capacity_reads_the_first_positions_only(tiny, tmp_path):
    """The form TensorRT wants: caches of any capacity, N = len(span) positions attended."""
    report = export_graph(gpt_graph(tiny, exact_cache=False), tmp_path)
    assert report.error < 1e-5
    model = onnx.load(tmp_path / "gpt.onnx", load_external_data=False)
    shapes = {value.name: [dim.dim_param for dim in value.type.tensor_type.shape.dim] for value in model.graph.input}
    assert (shapes["k_0"][2], shapes["span"][0]) == ("C", "N")
    exact, fixed = (gpt_graph(tiny, exact_cache=flag) for flag in (True, False))
    inputs = exact.samples[0]
    padded = {
        name: torch.nn.functional.pad(value, (0, 0, 0, 9), value=3.0) if name[:2] in ("k_", "v_") else value
        for name, value in inputs.items()
    }
    with torch.inference_mode():
        codes, hidden, *_ = exact.module(*exact.arguments(inputs))
        fixed_codes, fixed_hidden, *_ = fixed.module(*fixed.arguments(padded))
    assert torch.equal(codes, fixed_codes)
    assert torch.equal(hidden, fixed_hidden)


def test_dynamic_dimensions_have_names(reference):
    model = onnx.load(reference.folder / "gpt.onnx", load_external_data=False)
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in [*model.graph.input, *model.graph.output]
    }
    assert shapes["codes_in"] == ["B", "S", 4]
    assert shapes["span"] == ["N"]
    assert shapes["k_0"] == shapes["k_0_out"]
    assert (shapes["k_0"][0], shapes["k_0"][2]) == ("B", "N")
    assert shapes["noise"] == ["B", 4, 50]
    assert shapes["codes"] == ["B", 4]


def test_export_that_computes_something_else_is_refused(tiny, tmp_path, monkeypatch):
    from trt_tts.builders import export

    graph = GRAPHS["text_head"].make(tiny)
    original = export._to_onnx

    def broken(wanted):
        model = original(wanted)
        for tensor in model.graph.initializer:
            if tensor.name.endswith("weight"):
                values = onnx.numpy_helper.to_array(tensor) * -1
                tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
        return model

    monkeypatch.setattr(export, "_to_onnx", broken)
    with pytest.raises(ExportError, match="text_head does not compute"):
        export.export_graph(graph, tmp_path)


@pytest.mark.case("E17")
def test_saving_does_not_look_into_the_current_folder(tmp_path, monkeypatch, tiny_exports):
    (tmp_path / "text_head.weights").write_text("another graph's")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "target").mkdir()
    model = onnx.load(tiny_exports / "text_head.onnx")
    file = save_model(model, tmp_path / "target", "text_head")
    assert (tmp_path / "target" / "text_head.weights").stat().st_size > 1000
    onnx.checker.check_model(file)
