"""The kernels for chunks on long, many and unlisted sequences."""

from functools import partial

import pytest
import torch
from support.model.paged_cases import PagedCase, Shape, assert_close
from support.model.triton_kernels import CHUNKS, prefill, run_chunks


@pytest.mark.parametrize("kernel", CHUNKS)
def test_a_chunk_of_many_query_tiles_is_causal_throughout(kernel, seed):
    """With splits, some rows see nothing of some of them."""
    case = PagedCase(Shape(group=7, num_kv_heads=1), [70, 40, 7], seed)
    actual, expected = run_chunks(CHUNKS[kernel], case, [21, 1, 7])
    assert_close(actual, expected, torch.float32)


@pytest.mark.parametrize("kernel", ["prefill", "unified"])
def test_a_program_finds_its_sequence_for_every_mix_of_lengths(kernel, seed):
    """Each token is written to its place, for 12 short sequences of random lengths."""
    generator = torch.Generator().manual_seed(seed)
    query_lens = (torch.randint(0, 6, (12,), generator=generator) ** 2 + 1).tolist()
    contexts = [n + int(torch.randint(0, 9, (1,), generator=generator)) for n in query_lens]
    case = PagedCase(Shape(head_size=16, num_kv_heads=1, block_size=8), contexts, seed)
    actual, expected = run_chunks(CHUNKS[kernel], case, query_lens)
    assert_close(actual, expected, torch.float32)


def test_prefill_skips_sequences_that_are_not_listed(seed):
    case = PagedCase(Shape(group=3), [9, 20, 4], seed)
    actual, expected = run_chunks(partial(prefill, listed=[1]), case, [1, 7, 4])
    assert actual[0].isnan().all()
    assert actual[8:].isnan().all()
    assert_close(actual[1:8], expected[1:8], torch.float32)
