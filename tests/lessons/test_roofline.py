"""The count of weights that a pass reads, against the weights of the checkpoint."""

from minivllm.lessons.shown.roofline import weights_per_pass
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.checkpoint.weights import stream_weights
from minivllm.runtime.store.model_store import resolve_model


def test_every_matrix_of_the_checkpoint_counts_except_a_lookup_embedding():
    directory = resolve_model("tiny-random")
    matrices = {
        name: tensor.numel() for name, tensor in stream_weights(directory) if tensor.dim() == 2
    }
    looked_up = matrices.pop("model.embed_tokens.weight")
    config = read_model_config(directory)
    assert not config.tie_word_embeddings
    assert looked_up == config.vocab_size * config.hidden_size
    assert weights_per_pass(config) == sum(matrices.values())
