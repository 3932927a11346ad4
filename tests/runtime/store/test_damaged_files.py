"""Damaged and hostile model files: a typed error in one sentence, and little memory."""

import contextlib
import json
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.model.gguf_files import write_gguf

from minivllm.errors import ModelError, ModelIntegrityError, UnsupportedModelError
from minivllm.runtime.checkpoint.checkpoint import weight_files
from minivllm.runtime.checkpoint.gguf import read_gguf_header
from minivllm.runtime.checkpoint.gguf_conversion import check_convertible
from minivllm.runtime.checkpoint.weights import stream_weights, weight_entries


@contextlib.contextmanager
def refused_in_one_sentence(kind: type[ModelError], words: str | None = None):
    """The error is short, printable, and raised before anything large is allocated."""
    tracemalloc.start()
    with pytest.raises(kind, match=words) as error:
        yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20
    assert len(str(error.value)) < 400 and str(error.value).isprintable()


# ---- safetensors ----


def write_raw(path: Path, header: object, num_data_bytes: int) -> None:
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + bytes(num_data_bytes))


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


LONG_SHAPE = b'{"a": {"dtype": "F32", "shape": [' + b"9" * 4000 + b'], "data_offsets": [0, 8]}}'


@pytest.mark.parametrize(
    "header, num_data_bytes",
    [
        (b"no JSON!", 0), ({"a": entry(shape=[-2])}, 8),
        ({"a": entry(shape=[1 << 62, 1 << 62])}, 8),
        ({"a": entry(offsets=[1 << 60, (1 << 60) + 8])}, 8),
        ({"a": entry(), "b": entry(offsets=[4, 12])}, 12), (LONG_SHAPE, 8),
        (b'{"a":' * 100_000, 0), (b" " * (17 << 20), 0),
        ({"\x1b[2J\n": entry(offsets=[0, 4])}, 4),
    ],
    ids=range(9),
)  # fmt: skip
def test_claims_that_do_not_fit_a_safetensors_file_are_refused(tmp_path, header, num_data_bytes):
    write_raw(tmp_path / "f.safetensors", header, num_data_bytes)
    with refused_in_one_sentence(ModelIntegrityError, "is damaged"):
        weight_entries(tmp_path / "f.safetensors")


def test_quantized_tensors_and_damaged_indexes_are_refused(tmp_path):
    write_raw(tmp_path / "f.safetensors", {"a": entry("F8_E4M3", [8])}, 8)
    with pytest.raises(UnsupportedModelError, match="F8_E4M3"):
        weight_entries(tmp_path / "f.safetensors")
    for index in ("{}", '{"weight_map": {"a": 7}}', "nonsense"):
        (tmp_path / "model.safetensors.index.json").write_text(index)
        with pytest.raises(ModelIntegrityError):
            weight_files(tmp_path)


@given(data=st.data())
@settings(max_examples=40)
def test_no_damage_to_safetensors_leads_to_anything_but_a_model_error(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "fuzz" / "model.safetensors"
    path.parent.mkdir(exist_ok=True)
    tensors = {"a.weight": torch.ones(3, 4), "b": torch.ones(5).half(), "empty": torch.empty(0, 3)}
    safetensors.torch.save_file(tensors, path)
    contents = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        contents[data.draw(st.integers(0, len(contents) - 1))] = data.draw(st.integers(0, 255))
    contents = contents[: data.draw(st.integers(0, 2 * len(contents)))]  # half are cut short
    path.write_bytes(bytes(contents))
    with contextlib.suppress(ModelError):
        assert sum(tensor.nbytes for _, tensor in stream_weights(path.parent)) <= len(contents)


# ---- GGUF ----


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"metadata": {"llama.block_count": 4_000_000_000}}, "fewer tensors than layers"),
        ({"metadata": {"tokenizer.ggml.model": 7}}, "value 7 for tokenizer.ggml.model"),
    ],
)
def test_a_file_whose_parts_do_not_fit_together_is_refused(tmp_path, changes, words):
    write_gguf(tmp_path / "m.gguf", **changes)
    with refused_in_one_sentence(ModelIntegrityError, words):
        check_convertible(read_gguf_header(tmp_path / "m.gguf"))
    for name in ("../../etc/passwd", "\x1b]0;owned\x07", "a" * 10_000):
        write_gguf(tmp_path / "m.gguf", extra_tensors={name: np.zeros(4, np.float32)})
        with refused_in_one_sentence(ModelError):
            check_convertible(read_gguf_header(tmp_path / "m.gguf"))


def gguf_header(*pairs: bytes, num_pairs: int | None = None, num_tensors: int = 0) -> bytes:
    counts = struct.pack("<IQQ", 3, num_tensors, len(pairs) if num_pairs is None else num_pairs)
    return b"GGUF" + counts + b"".join(pairs)


def pair(key: bytes, type_: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key + struct.pack("<I", type_) + value


@pytest.mark.parametrize(
    "contents",
    [
        gguf_header(num_pairs=1 << 60),
        gguf_header(*[pair(b"%d" % i, 0, b"\0") for i in range(1 << 17)]),
        gguf_header(num_tensors=1 << 17),
        gguf_header(pair(b"k", 9, struct.pack("<IQ", 8, 1 << 60))),
        gguf_header(pair(b"k", 8, struct.pack("<Q", 1 << 63))),
        # The bytes are there, and would become lists of gigabytes.
        gguf_header(pair(b"k", 9, struct.pack("<IQ", 0, 1 << 26)), bytes(1 << 26)),
        gguf_header(pair(b"k", 9, struct.pack("<IQ", 8, 1 << 23)), bytes(1 << 26)),
        gguf_header(pair(b"k", 8, struct.pack("<Q", 80 << 20)), bytes(80 << 20)),
    ],
    ids=range(8),
)
def test_a_header_that_claims_more_than_any_model_has_is_refused(tmp_path, contents):
    (tmp_path / "m.gguf").write_bytes(contents)
    with refused_in_one_sentence(ModelIntegrityError):
        read_gguf_header(tmp_path / "m.gguf")


@given(data=st.data())
@settings(max_examples=40)
def test_no_damage_to_a_gguf_header_leads_to_anything_but_a_model_error(tmp_path_factory, data):
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
