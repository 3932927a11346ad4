"""The count of weights that a pass reads, against the weights that the checkpoint has."""

import math

import pytest

from minivllm.lessons.shown.roofline import H100, operations_per_byte, weights_per_pass
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.checkpoint.weights import stream_weights
from minivllm.runtime.store.model_store import resolve_model


def test_every_matrix_of_the_checkpoint_counts_but_the_embedding_that_is_only_looked_up():
    directory = resolve_model("tiny-random")
    matrices = {
        name: tensor.numel() for name, tensor in stream_weights(directory) if tensor.dim() == 2
    }
    looked_up = matrices.pop("model.embed_tokens.weight")
    config = read_model_config(directory)
    assert not config.tie_word_embeddings
    assert looked_up == config.vocab_size * config.hidden_size
    assert weights_per_pass(config) == sum(matrices.values())


def test_arithmetic_and_memory_are_in_balance_where_one_takes_as_long_as_the_other():
    tokens, bytes_per_weight = H100.operations_per_byte, 2
    assert operations_per_byte(tokens, bytes_per_weight) == pytest.approx(H100.operations_per_byte)
    weights = 1e9
    seconds_to_read = weights * bytes_per_weight / H100.bytes_per_second
    seconds_to_compute = 2 * weights * math.floor(tokens) / H100.operations_per_second
    assert seconds_to_compute == pytest.approx(seconds_to_read, rel=0.01)
