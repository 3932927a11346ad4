"""Safetensors files: tensors arrive unchanged, and false claims are found before loading."""

import json
from collections.abc import Iterator

import pytest
import safetensors.torch
import torch
from gguf import GGMLQuantizationType
from support.model.gguf_files import HIDDEN, write_gguf

from minivllm.errors import ModelIntegrityError, UnsupportedModelError
from minivllm.runtime.checkpoint.checkpoint import weight_files
from minivllm.runtime.checkpoint.weights import stream_weights
from minivllm.runtime.quantization import stored_weight
from minivllm.runtime.quantization.stored_weight import StoredWeight


def some_tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "a.weight": torch.randn(3, 4, generator=generator),
        "b.weight": torch.randn(5, generator=generator).bfloat16(),
        "c.weight": torch.randn(2, 2, 2, generator=generator).half(),
        "d.weight": torch.randn(7, 1, generator=generator).double(),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5),
    }


@pytest.mark.parametrize("num_shards", [1, 2])
def test_every_tensor_arrives_with_its_dtype_shape_and_bits(tmp_path, num_shards):
    tensors = some_tensors()
    names = sorted(tensors)
    if num_shards == 1:
        safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    else:
        shards = {"model-1.safetensors": names[:3], "model-2.safetensors": names[3:]}
        for file, some in shards.items():
            safetensors.torch.save_file({name: tensors[name] for name in some}, tmp_path / file)
        index = {"weight_map": {name: file for file, some in shards.items() for name in some}}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    streamed = dict(stream_weights(tmp_path))
    assert streamed.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert streamed[name].dtype == tensor.dtype and streamed[name].shape == tensor.shape
        assert torch.equal(streamed[name], tensor)
    if num_shards == 2:
        (tmp_path / "model-2.safetensors").unlink()
        with pytest.raises(ModelIntegrityError, match=r"lacks 'model-2\.safetensors"):
            weight_files(tmp_path)


def test_a_matrix_is_quantized_while_it_is_read_and_never_whole_in_memory(tmp_path, monkeypatch):
    tensors = {"w": torch.randn(3000, 512), "norm": torch.randn(512), "empty": torch.empty(5, 0)}
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    at_once, sizes = StoredWeight.quantize_int8([tensors["w"]], (3000, 512)), []

    def quantize(pieces: Iterator[torch.Tensor], shape: tuple[int, int]) -> StoredWeight:
        pieces = list(pieces)
        sizes.extend(len(piece) for piece in pieces)
        return quantize_rows(pieces, shape)

    quantize_rows = StoredWeight.quantize_int8
    monkeypatch.setattr(StoredWeight, "quantize_int8", quantize)
    streamed = dict(stream_weights(tmp_path, quantization="int8"))
    assert torch.equal(streamed["w"].data, at_once.data)
    assert torch.equal(streamed["norm"], tensors["norm"]) and streamed["empty"].shape == (5, 0)
    assert sum(sizes) == 3000 and max(sizes) == 512


@pytest.mark.parametrize("type_", ["F16", "Q5_0", "Q8_0"])
def test_int8_of_a_gguf_file_is_int8_of_what_the_file_holds(type_, tmp_path, monkeypatch):
    """Q8_0 is quantized already. llama.cpp's order of a head's rows is changed after rounding."""
    monkeypatch.setattr(stored_weight, "_WEIGHTS_AT_ONCE", 7 * HIDDEN)
    write_gguf(tmp_path / "model.gguf", type_=GGMLQuantizationType[type_])
    quantized = dict(stream_weights(tmp_path, quantization="int8"))
    for name, weight in stream_weights(tmp_path):
        if isinstance(weight, torch.Tensor) and weight.dim() == 2:
            weight = StoredWeight.quantize_int8([weight], weight.shape)
        is_stored = isinstance(weight, StoredWeight)
        found = quantized[name].data if is_stored else quantized[name]
        assert torch.equal(found, weight.data if is_stored else weight), name


@pytest.mark.parametrize(
    "name", ["../secret.safetensors", "/etc/passwd", "x.bin", "..", "a\0.safetensors"]
)
def test_an_index_reaches_only_safetensors_files_beside_it(tmp_path, name):
    directory = tmp_path / "model"
    directory.mkdir()
    safetensors.torch.save_file({"a": torch.zeros(2)}, tmp_path / "secret.safetensors")
    (directory / "x.bin").write_bytes(b"")
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(ModelIntegrityError, match=r"not a safetensors file in the same|lacks"):
        weight_files(directory)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.ckpt"])
def test_pickled_weights_are_refused_and_never_opened(tmp_path, name):
    (tmp_path / name).mkdir()  # opening a directory would raise another error
    with pytest.raises(UnsupportedModelError, match="convert them to safetensors"):
        weight_files(tmp_path)
