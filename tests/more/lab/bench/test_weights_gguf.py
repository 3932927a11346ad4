"""The GGUF file for llama.cpp holds exactly our weights, in llama.cpp's order."""

import numpy as np

from minivllm.lab.bench.throughput.weights_gguf import write_stored_copy
from minivllm.runtime.checkpoint.checkpoint import GGUF_FILE, read_model_config
from minivllm.runtime.checkpoint.gguf_file import read_gguf_header
from minivllm.runtime.checkpoint.weights import stream_weights
from minivllm.runtime.store.model_store import resolve_model


def test_what_is_written_in_float32_reads_back_bit_by_bit(tmp_path):
    """Read with our own reader, which other tests compare with transformers."""
    checkpoint = resolve_model("tiny-random")
    target = tmp_path / "copy"
    target.mkdir()
    write_stored_copy(checkpoint, target, "float32")
    found, expected = dict(stream_weights(target)), dict(stream_weights(checkpoint))
    assert found.keys() == expected.keys()
    assert [name for name in expected if not np.array_equal(found[name], expected[name])] == []
    header = read_gguf_header(target / GGUF_FILE)
    assert header.metadata["general.architecture"] == "llama"
    assert header.metadata["llama.vocab_size"] == read_model_config(checkpoint).vocab_size
