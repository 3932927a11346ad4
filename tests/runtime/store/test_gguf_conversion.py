"""GGUF files become equal checkpoints; unsupported files are refused before the conversion."""

import contextlib
import json
import random
import struct
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from gguf import GGMLQuantizationType
from hypothesis import given, settings
from hypothesis import strategies as st
from support.model.gguf_files import CHAT_TEMPLATE, LAYERS, write_gguf
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from minivllm.errors import ModelError, ModelIntegrityError, UnsupportedModelError
from minivllm.runtime.checkpoint.float32_copy import as_float32, write_float32_copy
from minivllm.runtime.checkpoint.gguf_conversion import check_convertible, convert_gguf
from minivllm.runtime.checkpoint.gguf_file import read_gguf_header
from minivllm.runtime.checkpoint.weights import stream_weights
from minivllm.runtime.progress import silent

ARCHITECTURES = ["llama", "qwen2", "qwen3"]


def convert(path: Path, directory: Path) -> dict[str, np.ndarray]:
    """Convert to float32, and read the weights back with the safetensors library."""
    with tempfile.TemporaryDirectory() as as_stored:
        convert_gguf(path, Path(as_stored), silent)
        directory.mkdir()
        write_float32_copy(Path(as_stored), directory)
    return safetensors.numpy.load_file(directory / "model.safetensors")


@pytest.mark.parametrize(
    ("arch", "tied"), [("llama", True), *((arch, False) for arch in ARCHITECTURES)]
)
def test_an_unquantized_file_gives_back_the_weights_that_it_was_made_from(tmp_path, arch, tied):
    weights = write_gguf(tmp_path / "m.gguf", arch, tied=tied)
    converted = convert(tmp_path / "m.gguf", tmp_path / "out")
    assert converted.keys() == weights.keys()
    assert all(np.array_equal(converted[name], weight) for name, weight in weights.items())


@pytest.mark.parametrize(
    ("arch", "type_"),
    [
        *(("llama", type_) for type_ in ("Q8_0", "F16", "BF16")),
        *((a, "Q4_1") for a in ARCHITECTURES),
    ],
)
def test_quantized_weights_equal_those_of_transformers_bit_for_bit(tmp_path, arch, type_):
    path = tmp_path / "m.gguf"
    write_gguf(path, arch, type_=GGMLQuantizationType[type_])
    converted = convert(path, tmp_path / "out")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(tmp_path / "out"))
    theirs = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)["tensors"]
    assert converted.keys() == theirs.keys() == model.state_dict().keys()
    assert all(np.array_equal(converted[name], tensor.numpy()) for name, tensor in theirs.items())


@pytest.mark.slow
def test_the_chat_models_weights_equal_those_of_transformers_bit_for_bit(smollm2_path):
    config = AutoConfig.from_pretrained(smollm2_path)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    theirs = load_gguf_checkpoint(
        smollm2_path / "model.gguf", return_tensors=True, model_to_load=model
    )["tensors"]
    for name, weight in stream_weights(smollm2_path):
        assert np.array_equal(as_float32(weight), theirs.pop(name).numpy()), name
    assert not theirs


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_config_equals_what_transformers_reads_from_the_same_file(tmp_path, arch):
    write_gguf(tmp_path / "m.gguf", arch)
    convert(tmp_path / "m.gguf", tmp_path / "out")
    ours = AutoConfig.from_pretrained(tmp_path / "out").to_dict()
    theirs = AutoConfig.from_pretrained(tmp_path, gguf_file="m.gguf").to_dict()
    same = ["model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"]
    same += ["num_attention_heads", "num_key_value_heads", "rms_norm_eps", "rope_parameters"]
    same += ["max_position_embeddings"]
    same += ["tie_word_embeddings", "hidden_act", "bos_token_id", "eos_token_id"]
    # for Qwen3, transformers always assumes 128; Qwen2 has no such setting
    if arch == "llama":
        same.append("head_dim")
    assert {key: ours[key] for key in same} == {key: theirs[key] for key in same}


def test_transformers_loads_the_whole_checkpoint_tokenizer_and_chat_template_included(tmp_path):
    write_gguf(tmp_path / "m.gguf")
    convert(tmp_path / "m.gguf", tmp_path / "out")
    model, loading = AutoModelForCausalLM.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert not any(loading.values())
    assert len(model.model.layers) == LAYERS
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.chat_template == CHAT_TEMPLATE
    tokens = ["<|im_start|>", "b", "Ġa", "<|im_end|>"]
    assert tokenizer.tokenize("<|im_start|>b a<|im_end|>") == tokens
    assert json.loads((tmp_path / "out/generation_config.json").read_text())["eos_token_id"] == 2


@pytest.mark.parametrize("pre, expected", [("gpt-2", ["12"]), ("smollm", ["1", "2"])])
def test_digits_are_split_for_models_that_were_trained_so(tmp_path, pre, expected):
    write_gguf(tmp_path / "m.gguf", pre=pre)
    convert(tmp_path / "m.gguf", tmp_path / "out")
    assert AutoTokenizer.from_pretrained(tmp_path / "out").tokenize("12") == expected


# ---- refused, from the header alone ----


@pytest.mark.parametrize(
    "arch, changes, words",
    [
        ("gpt2", {}, "'gpt2'.*llama, qwen2, qwen3"),
        ("llama", {"metadata": {"llama.rope.scaling.type": "linear"}}, "scaled rotary"),
        (
            "llama",
            {"extra_tensors": {"blk.0.ffn_gate_exps.weight": np.ones((2, 32), np.float32)}},
            "ffn_gate_exps",
        ),
        ("qwen2", {"metadata": {"qwen2.attention.sliding_window": 64}}, "sliding-window"),
        ("llama", {"pre": "some-new-rule"}, "gpt2/some-new-rule"),
        (
            "llama",
            {"metadata": {}, "integers": "output_norm.weight"},
            "stores its weights as I32.*use a Q4",
        ),
    ],
)
def test_an_unsupported_model_is_refused_before_converting(tmp_path, arch, changes, words):
    write_gguf(tmp_path / "m.gguf", arch, **changes)
    with pytest.raises(UnsupportedModelError, match=words):
        check_convertible(read_gguf_header(tmp_path / "m.gguf"))


# ---- damaged files ----


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"metadata": {"llama.block_count": 3}}, "lacks the tensor model.layers.2"),
        ({"metadata": {"llama.block_count": 4_000_000_000}}, "fewer tensors than layers"),
        ({"metadata": {"llama.feed_forward_length": 97}}, "model.layers.0.mlp.* different shapes"),
        ({"metadata": {"tokenizer.ggml.model": 7}}, "value 7 for tokenizer.ggml.model"),
    ],
)
def test_a_file_whose_parts_do_not_fit_together_is_refused_before_converting(
    tmp_path, changes, words
):
    write_gguf(tmp_path / "m.gguf", **changes)
    with pytest.raises(ModelIntegrityError, match=words):
        check_convertible(read_gguf_header(tmp_path / "m.gguf"))


def test_a_file_cut_short_anywhere_is_refused_when_its_header_is_read(tmp_path):
    path = tmp_path / "m.gguf"
    write_gguf(path)
    whole = path.read_bytes()
    lengths = [0, 3, 4, 23, *random.Random(0).sample(range(len(whole)), 200), len(whole) - 1]
    for length in lengths:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelIntegrityError):
            read_gguf_header(path)


def gguf_header(*pairs: bytes, num_pairs: int | None = None, num_tensors: int = 0) -> bytes:
    return (
        b"GGUF"
        + struct.pack("<IQQ", 3, num_tensors, len(pairs) if num_pairs is None else num_pairs)
        + b"".join(pairs)
    )


def pair(key: bytes, type_: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key + struct.pack("<I", type_) + value


@pytest.mark.parametrize(
    "contents",
    [
        gguf_header(num_pairs=1 << 60),
        gguf_header(pair(b"k", 9, struct.pack("<IQ", 8, 1 << 60))),
        gguf_header(pair(b"k", 8, struct.pack("<Q", 1 << 63))),
        # The bytes are there, and would become lists of gigabytes.
        gguf_header(pair(b"k", 9, struct.pack("<IQ", 0, 1 << 26)), bytes(1 << 26)),
        gguf_header(pair(b"k", 9, struct.pack("<IQ", 8, 1 << 23)), bytes(1 << 26)),
        gguf_header(*[pair(b"", 0, b"\0")] * (1 << 17)),
        gguf_header(pair(b"k", 8, struct.pack("<Q", 80 << 20)), bytes(80 << 20)),
    ],
    ids=range(7),
)
def test_a_header_that_claims_more_than_any_model_has_is_refused_before_it_takes_memory(
    tmp_path, contents
):
    path = tmp_path / "m.gguf"
    path.write_bytes(contents)
    tracemalloc.start()
    with pytest.raises(ModelIntegrityError) as error:
        read_gguf_header(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("name", [b"../../etc/passwd", b"\x1b]0;owned\x07", b"a" * 10_000])
def test_a_hostile_tensor_name_gives_a_short_printable_error(tmp_path, name):
    path = tmp_path / "m.gguf"
    write_gguf(path, extra_tensors={name.decode(): np.zeros(4, np.float32)})
    with pytest.raises(ModelError) as error:
        check_convertible(read_gguf_header(path))
    assert len(str(error.value)) < 400 and str(error.value).isprintable()


def test_tensors_that_overlap_are_refused(tmp_path):
    path = tmp_path / "m.gguf"
    write_gguf(path)
    contents = bytearray(path.read_bytes())
    at = contents.index(b"blk.1.attn_q.weight") + len("blk.1.attn_q.weight") + 4 + 16 + 4
    contents[at : at + 8] = bytes(8)
    path.write_bytes(contents)
    with pytest.raises(ModelIntegrityError, match="overlaps"):
        read_gguf_header(path)


@given(data=st.data())
@settings(max_examples=100)
def test_no_damage_to_a_header_leads_to_anything_but_a_model_error(tmp_path_factory, data):
    """Flip bytes: the answer is a typed error or a header, in time and with little memory."""
    path = tmp_path_factory.getbasetemp() / "fuzz.gguf"
    if not path.exists():
        write_gguf(path)
    contents = bytearray(path.read_bytes())
    header_end = contents.index(b"blk.1.attn_q.weight")
    for _ in range(data.draw(st.integers(1, 4))):
        contents[data.draw(st.integers(4, header_end))] = data.draw(st.integers(0, 255))
    damaged = path.with_name("damaged.gguf")
    damaged.write_bytes(bytes(contents))
    with contextlib.suppress(ModelError):
        check_convertible(read_gguf_header(damaged))
