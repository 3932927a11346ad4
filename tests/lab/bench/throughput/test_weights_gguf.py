"""The GGUF file for llama.cpp holds exactly our weights, in llama.cpp's order."""

from pathlib import Path

import numpy as np

from minivllm.lab.bench.throughput.weights_gguf import write_gguf
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.checkpoint.gguf_conversion import _weights
from minivllm.runtime.checkpoint.gguf_file import read_gguf_header
from minivllm.runtime.checkpoint.weights import stream_weights
from minivllm.runtime.store.model_store import resolve_model


def read_back(path: Path) -> dict[str, np.ndarray]:
    """Read with our own converter, which other tests compare with transformers."""
    config = read_model_config(resolve_model("tiny-random"))
    shape = {
        "model_type": "llama",
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
    }
    header = read_gguf_header(path)
    assert header.metadata["general.architecture"] == "llama"
    assert header.metadata["llama.vocab_size"] == config.vocab_size
    return dict(_weights(header, shape))


def test_what_is_written_in_float32_reads_back_bit_by_bit(tmp_path):
    checkpoint = resolve_model("tiny-random")
    write_gguf(checkpoint, tmp_path / "w.gguf", "float32")
    found = read_back(tmp_path / "w.gguf")
    expected = dict(stream_weights(checkpoint))
    assert found.keys() == expected.keys()
    assert [
        name for name, tensor in expected.items() if not np.array_equal(found[name], tensor.numpy())
    ] == []
