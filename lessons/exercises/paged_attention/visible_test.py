"""The README's examples as tests, for `pytest visible_test.py`."""

import numpy as np
import torch
from torch_backend import TorchAttentionBackend

from minivllm.runtime.input_batch import CommonAttentionMetadata
from minivllm.runtime.kv_cache import KVCacheSpec

TABLE = [7, 2]


def decode_of_six_tokens():
    """Return a backend with five cached tokens, the step that adds the sixth, and the six tokens.

    All other slots of the cache hold NaN.
    """
    torch.manual_seed(0)
    backend = TorchAttentionBackend(KVCacheSpec(1, 1, 8, 4, torch.float32), 9, torch.device("cpu"))
    backend.kv_caches[0].fill_(torch.nan)
    context = torch.randn(6, 2, 8)  # keys and values
    for position in range(5):
        backend.kv_caches[0][TABLE[position // 4], position % 4] = context[position]
    step = CommonAttentionMetadata(
        np.array([0, 1]), np.array([5]), np.array([TABLE]), np.array([2 * 4 + 1])
    )
    return backend, backend.build(step), context


def test_a_token_is_written_to_its_slot():
    backend, metadata, context = decode_of_six_tokens()
    backend._write(backend.kv_caches[0], context[5:, :1], context[5:, 1:], metadata)
    assert torch.equal(backend.kv_caches[0][2, 1], context[5])
    assert backend.kv_caches[0][2, 2].isnan().all()


def test_tokens_are_read_in_their_order_and_padding_is_zero():
    backend, _, context = decode_of_six_tokens()
    keys, values = backend._read(
        backend.kv_caches[0], torch.tensor(TABLE), 1, padding=torch.tensor([5, 6, 7])
    )
    assert keys.shape == values.shape == (1, 1, 8, 8)
    assert torch.equal(keys[0, 0, :5], context[:5, 0])
    assert torch.equal(values[0, 0, :5], context[:5, 1])
    assert not keys[0, 0, 5:].any()


def test_a_query_attends_to_its_six_tokens():
    backend, metadata, context = decode_of_six_tokens()
    query = torch.randn(1, 1, 8)
    unrotated = torch.ones(1, 1, 8), torch.zeros(1, 1, 8)  # cosines and sines of an angle of zero
    output = backend.forward(0, query, context[5:, :1], context[5:, 1:], unrotated, metadata)
    weights = torch.softmax(context[:, 0] @ query[0, 0] * 8**-0.5, dim=0)
    assert torch.allclose(output[0, 0], weights @ context[:, 1], atol=1e-5)
