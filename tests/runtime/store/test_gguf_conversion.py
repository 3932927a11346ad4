"""GGUF files become equal checkpoints; unsupported files are refused before the conversion."""

import filecmp
import json
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from gguf import GGMLQuantizationType
from support.model import gguf_files
from support.model.gguf_files import CHAT_TEMPLATE, HEAD_SIZE, hf_config, write_gguf
from support.model.tiny_models import PlannedRunner
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from minivllm.config import EngineConfig
from minivllm.errors import ModelIntegrityError, UnsupportedModelError
from minivllm.runtime.checkpoint.float32_copy import write_float32_copy
from minivllm.runtime.checkpoint.gguf import read_gguf_header
from minivllm.runtime.checkpoint.gguf_conversion import check_convertible, convert_gguf
from minivllm.runtime.loader import load_model
from minivllm.runtime.progress import silent

ARCHITECTURES = gguf_files.ARCHITECTURES
KNOWN_TO_TRANSFORMERS = ["llama", "qwen2", "qwen3", "gemma3", "phi3", "qwen3moe"]


def convert(path: Path, directory: Path) -> dict[str, np.ndarray]:
    """Convert to float32, and read the weights back with the safetensors library."""
    with tempfile.TemporaryDirectory() as as_stored:
        convert_gguf(path, Path(as_stored), silent)
        directory.mkdir()
        write_float32_copy(Path(as_stored), directory)
    return safetensors.numpy.load_file(directory / "model.safetensors")


@pytest.mark.parametrize(
    ("arch", "type_"),
    [("llama", "Q8_0"), ("llama", "BF16"), *((a, "Q4_1") for a in KNOWN_TO_TRANSFORMERS)],
)
def test_quantized_weights_equal_those_of_transformers(tmp_path, arch, type_):
    path = tmp_path / "m.gguf"
    write_gguf(path, arch, type_=GGMLQuantizationType[type_])
    convert(path, tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    found = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)["tensors"]
    weights = model.state_dict()
    assert weights.keys() == found.keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in found.items())


@pytest.mark.parametrize("pre, digits", [("gpt-2", ["12"]), ("smollm", ["1", "2"])])
def test_transformers_reads_the_tokenizer_its_template_and_its_end_tokens(tmp_path, pre, digits):
    write_gguf(tmp_path / "m.gguf", pre=pre)
    convert(tmp_path / "m.gguf", tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.chat_template == CHAT_TEMPLATE
    tokens = ["<|im_start|>", "b", "Ġa", "<|im_end|>"]
    assert tokenizer.tokenize("<|im_start|>b a<|im_end|>") == tokens
    assert tokenizer.tokenize("12") == digits, "split for models that were trained so"
    settings = json.loads((tmp_path / "out/generation_config.json").read_text())
    assert settings["eos_token_id"] == [0, 2], "the file names 2; llama.cpp knows <|endoftext|>"


@pytest.mark.parametrize("type_", ["Q8_0", "Q4_0", "BF16"])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_stored_blocks_in_another_order_write_the_tokens_of_their_numbers(tmp_path, arch, type_):
    path, stored, plain = tmp_path / "m.gguf", tmp_path / "stored", tmp_path / "plain"
    write_gguf(path, arch, type_=GGMLQuantizationType[type_])
    convert(path, plain)
    stored.mkdir()
    convert_gguf(path, stored, silent)
    logits = []
    for directory in (stored, plain):
        run = PlannedRunner(load_model(EngineConfig(model=str(directory), dtype="float32")).decoder)
        sequence, num_tokens = run.new(list(range(3, 60))), 57
        logits.append([])
        while len(logits[-1]) < 20:
            logits[-1].append(run.run((sequence, num_tokens))[0])
            sequence.append_token(int(logits[-1][-1].argmax()))
            num_tokens = 1
    found, expected = map(torch.stack, logits)
    assert torch.equal(found.argmax(-1), expected.argmax(-1))
    assert torch.allclose(found, expected, atol=1e-4 * float(expected.abs().max()))


def rope_freqs(rope: dict[str, float], head_size: int) -> np.ndarray:
    """Return the divisors of Llama 3's frequencies, as llama.cpp's converter writes them."""
    base, original = rope["rope_theta"], rope["original_max_position_embeddings"]
    frequencies = 1.0 / base ** (torch.arange(0, head_size, 2, dtype=torch.float32) / head_size)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    divisors = []
    for wavelength in (2 * np.pi / frequencies).tolist():
        if wavelength < original / high:
            divisors.append(1.0)
        elif wavelength > original / low:
            divisors.append(rope["factor"])
        else:
            smooth = (original / wavelength - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    assert {1.0, rope["factor"]} < set(divisors), "some pairs are blended"
    return np.array(divisors, dtype=np.float32)


@torch.no_grad()
def assert_computes(directory: Path, config: PreTrainedConfig, weights: dict[str, np.ndarray]):
    """The converted model has the logits of transformers' model with this config and weights."""
    with tempfile.TemporaryDirectory() as original:
        config.save_pretrained(original)
        safetensors.numpy.save_file(weights, f"{original}/model.safetensors", {"format": "pt"})
        peer = AutoModelForCausalLM.from_pretrained(original, dtype=torch.float32).eval()
    prompt = torch.randint(3, 200, (1, 200), generator=torch.Generator().manual_seed(0))
    expected = peer(prompt).logits[0]

    model = load_model(EngineConfig(model=str(directory), dtype="float32"))
    run = PlannedRunner(model.decoder, max_model_len=256)
    logits = run.run((run.new(prompt[0].tolist()), 200))
    assert torch.allclose(logits[0], expected[-1], atol=1e-4 * float(expected.abs().max()))
    theirs, loading = AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True)
    assert not any(loading.values())
    assert (theirs.config.bos_token_id, theirs.config.eos_token_id) == (1, 2)
    assert theirs.config.max_position_embeddings == config.max_position_embeddings
    assert theirs.config.rms_norm_eps == pytest.approx(config.rms_norm_eps)
    assert torch.allclose(theirs(prompt).logits[0], expected, atol=1e-3)


@pytest.mark.parametrize(("arch", "tied"), [("llama", True), *((a, False) for a in ARCHITECTURES)])
def test_a_file_has_the_weights_and_logits_of_the_same_model_as_safetensors(tmp_path, arch, tied):
    weights = write_gguf(tmp_path / "m.gguf", arch, tied=tied)
    converted = convert(tmp_path / "m.gguf", tmp_path / "out")
    assert converted.keys() == weights.keys()
    # Gemma's norms are stored with 1 added, which rounds them.
    assert all(np.allclose(converted[name], w, rtol=0, atol=3e-7) for name, w in weights.items())
    assert_computes(tmp_path / "out", hf_config(arch, tied), weights)


def test_the_divisors_of_a_llama_3_file_rotate_as_the_four_numbers_of_its_config(tmp_path):
    rope = {"rope_type": "llama3", "rope_theta": 5000.0, "factor": 8.0}
    rope |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope |= {"original_max_position_embeddings": 64}
    divisors = {"rope_freqs.weight": rope_freqs(rope, HEAD_SIZE)}
    weights = write_gguf(tmp_path / "m.gguf", extra_tensors=divisors)
    converted = convert(tmp_path / "m.gguf", tmp_path / "out")
    assert converted.keys() == weights.keys(), "the divisors are a setting, not a weight"
    config = hf_config("llama")
    config.rope_parameters = rope
    assert_computes(tmp_path / "out", config, weights)


@pytest.mark.parametrize("arch", ["gemma3", "granitemoe"])
def test_a_model_in_several_files_is_the_model_in_one(tmp_path, arch):
    """The first file has no tensors, as llama.cpp's converter can write it."""
    write_gguf(tmp_path / "m.gguf", arch, metadata={"split.count": 0})  # joined again
    write_gguf(tmp_path / "part.gguf", arch, split_max_tensors=9, small_first_shard=True)
    first, second, third, *_ = sorted(tmp_path.glob("part-*"))
    forms = tmp_path / "one", tmp_path / "several"
    whole, parts = convert(tmp_path / "m.gguf", forms[0]), convert(first, forms[1])
    assert parts.keys() == whole.keys()
    assert all(np.array_equal(parts[name], weight) for name, weight in whole.items())
    files = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]
    assert filecmp.cmpfiles(*forms, files, shallow=False)[0] == files
    with pytest.raises(ModelIntegrityError, match=f"{second.name} is .* name the first"):
        read_gguf_header(second)
    third.unlink()
    with pytest.raises(ModelIntegrityError, match=f"all others beside it, such as {third}"):
        read_gguf_header(first)


ONES = np.ones((2, 32), np.float32)


@pytest.mark.parametrize(
    "arch, changes, words",
    [
        ("gpt2", {}, "'gpt2'.*llama, qwen2, .*olmo2"),
        ("llama", {"metadata": {"llama.rope.scaling.type": "yarn"}}, "scaled rotary"),
        ("llama", {"extra_tensors": {"blk.0.ffn_gate_exps.weight": ONES}}, "ffn_gate_exps"),
        ("granitemoe", {"extra_tensors": {"blk.0.ffn_up_shexp.weight": ONES}}, "ffn_up_shexp"),
        ("qwen2", {"metadata": {"qwen2.attention.sliding_window": 64}}, "sliding-window"),
        ("llama", {"pre": "some-new-rule"}, "gpt2/some-new-rule.*or a newer GGUF file"),
        ("llama", {"pre": None}, "gpt2/default"),
        ("llama", {"metadata": {"llama.attention.value_length": 8}}, "heads of several sizes"),
        ("llama", {"metadata": {"llama.rope.dimension_count": 8}}, "rotates only a part"),
        ("granite", {"metadata": {"granite.rope.scaling.finetuned": False}}, "no rotary"),
        ("gemma3", {"metadata": {"gemma3.final_logit_softcapping": 30.0}}, "final_logit_softc"),
        ("llama", {"integers": "output_norm.weight"}, "stores its weights as I32.*use a Q4"),
    ],
)
def test_an_unsupported_model_is_refused_before_converting(tmp_path, arch, changes, words):
    write_gguf(tmp_path / "m.gguf", arch, **changes)
    with pytest.raises(UnsupportedModelError, match=words):
        check_convertible(read_gguf_header(tmp_path / "m.gguf"))


def test_a_file_cut_short_anywhere_is_refused_when_its_header_is_read(tmp_path):
    path = tmp_path / "m.gguf"
    write_gguf(path)
    whole = path.read_bytes()
    for length in [0, 3, 23, *random.Random(0).sample(range(len(whole)), 60), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelIntegrityError):
            read_gguf_header(path)
