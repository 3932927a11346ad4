"""Weights as stored: every format gives the tokens of the same weights in float32."""

import dataclasses
import re
from collections.abc import Iterable, Iterator

import pytest
import torch
from gguf import GGMLQuantizationType
from support.engine.identity_prompts import CHAT, TEXT
from support.engine.identity_runs import run
from support.model.gguf_files import write_gguf
from support.model.needs import cpu_ops

from minivllm.config import EngineConfig
from minivllm.errors import ConfigError, ModelIntegrityError
from minivllm.kernels.cpu.library import load_cpu_library
from minivllm.lab.bench.throughput.weights_gguf import write_stored_copy
from minivllm.runtime import loader
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.checkpoint.weights import stream_weights
from minivllm.runtime.loader import LoadedModel, load_model
from minivllm.runtime.model.decoder import Decoder
from minivllm.runtime.quantization.stored_weight import CheckpointWeight, StoredWeight
from minivllm.runtime.store.provenance import HOUSE_FOLDER
from minivllm.sampling_params import SamplingParams

Weights = Iterable[tuple[str, CheckpointWeight]]


@pytest.fixture(scope="module")
def house() -> LoadedModel:
    return load_model(EngineConfig(model="house", dtype="float32", device="cpu"))


def dequantized(weights: Weights) -> Iterator[tuple[str, torch.Tensor]]:
    for name, weight in weights:
        yield name, weight.dequantize() if isinstance(weight, StoredWeight) else weight.float()


def tokens(weights: Weights, base: LoadedModel, prompts: list[list[int]]) -> list[list[list[int]]]:
    decoder = Decoder(base.config, torch.float32, "cpu")
    decoder.load_weights(weights)
    model = dataclasses.replace(base, decoder=decoder)
    params = SamplingParams(temperature=0, max_tokens=10, ignore_eos=True)
    return run(model, prompts, params, max_model_len=256, max_num_batched_tokens=100)[0]


@pytest.mark.parametrize("format_", ["bfloat16", "q8_0", "q4_1", "int8"])
def test_tokens_over_stored_weights_are_those_of_float32(format_, house, tmp_path):
    if format_ == "int8":
        weights = list(stream_weights(HOUSE_FOLDER))
        for i, (name, weight) in enumerate(weights):
            if weight.dim() == 2:
                weights[i] = name, StoredWeight.quantize_int8([weight], weight.shape)
    else:
        write_stored_copy(HOUSE_FOLDER, tmp_path, format_)
        weights = list(stream_weights(tmp_path))
    prompts = [house.tokenizer.encode(text)[:60] for text in (*CHAT, *TEXT)]
    plain = tokens(dequantized(weights), house, prompts)
    assert tokens(weights, house, prompts) == plain
    assert len({tuple(ids) for (ids,) in plain}) > 5, "the prompts lead to different texts"


def test_weights_take_the_bytes_that_the_file_stores(house, own_cache):
    cpu_ops()  # only our kernel multiplies by stored weights
    file_bytes = (HOUSE_FOLDER / "model.safetensors").stat().st_size
    assert house.decoder.weight_bytes == pytest.approx(file_bytes, rel=0.01)
    write_gguf(own_cache / "model.gguf", type_=GGMLQuantizationType.Q4_1)
    model = load_model(EngineConfig(model=str(own_cache / "model.gguf"), device="cpu"))
    assert model.weights.startswith("Q4_1 from")
    assert model.decoder.weight_bytes == pytest.approx(model.decoder.stored_bytes, rel=0.1)
    table = model.decoder.embed_tokens.matrix.num_bytes
    assert model.decoder.bytes_per_token == model.decoder.weight_bytes - table, (
        "the head is not tied"
    )


@pytest.mark.parametrize(
    ("kind", "options", "is_fast", "sentence"),
    [
        ("Q5_0", {}, True, "are Q5_0, .* run as float32, .* of the quantized kinds Q8_0, Q4_0"),
        ("Q4_1", {}, False, "No CPU kernels: there is no program .* torch runs the model, 2 to 5"),
        ("Q4_1", {"dtype": "bfloat16"}, True, "run as bfloat16, .* with dtype 'float32' runs"),
        ("Q4_1", {}, True, None),
    ],
)
def test_weights_that_take_more_memory_than_their_file_are_reported_with_the_reason(
    kind, options, is_fast, sentence, house, own_cache, monkeypatch
):
    cpu_ops()  # only our kernel multiplies by stored weights
    monkeypatch.setattr(loader, "_MANY_BYTES", 50_000)
    if not is_fast:
        monkeypatch.setenv("CC", "/no/such/compiler")
        load_cpu_library.cache_clear()
    write_gguf(own_cache / "model.gguf", type_=GGMLQuantizationType[kind])
    said: list[str] = []
    config = EngineConfig(model=str(own_cache / "model.gguf"), device="cpu", **options)
    load_model(config, said.append)
    said = [line for line in said if line.startswith(("The weights are", "No CPU kernels"))]
    assert len(said) == (sentence is not None)
    assert sentence is None or re.search(sentence, said[0])


def test_int8_takes_a_byte_for_each_weight_and_names_what_it_was_made_from(house):
    model = load_model(EngineConfig(model="house", quantization="int8", device="cpu"))
    assert model.weights == "int8 of bf16 from the package minivllm"
    assert model.decoder.stored_bytes < 0.52 * house.decoder.stored_bytes


def test_quantizing_a_quantized_checkpoint_is_refused(own_cache):
    write_gguf(own_cache / "model.gguf", type_=GGMLQuantizationType.Q4_1)
    config = EngineConfig(model=str(own_cache / "model.gguf"), quantization="int8", device="cpu")
    with pytest.raises(ConfigError, match="are Q4_1 already: leave quantization out"):
        load_model(config)


@pytest.mark.parametrize(
    ("backend", "name"), [("auto", "mlp.down_proj"), ("torch", "self_attn.k_proj")]
)
def test_a_scale_that_is_not_a_number_is_refused(backend, name, tmp_path):
    write_stored_copy(HOUSE_FOLDER, tmp_path, "q8_0")
    damaged = dict(stream_weights(tmp_path))
    weight = damaged[f"model.layers.3.{name}.weight"]
    weight.data[7, :2] = torch.tensor([0x00, 0x7E], dtype=torch.uint8)  # NaN in float16
    decoder = Decoder(read_model_config(tmp_path), torch.float32, "cpu", backend)
    with pytest.raises(ModelIntegrityError, match="in q8_0 has a scale that is not a finite"):
        decoder.load_weights(damaged.items())
