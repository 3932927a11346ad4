"""The model runner: returned rows, the flat batch, and the size of the cache."""

import pytest
import torch
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.model.tiny_models import (
    VOCAB_SIZE,
    PlannedRunner,
    load_into_ours,
    make_peer,
    peer_logits,
    prompt,
)

from minivllm.errors import ConfigError
from minivllm.runtime.input_batch import InputBatch


@pytest.fixture(scope="module")
def peer():
    return make_peer("llama")


@pytest.fixture(scope="module")
def decoder(peer):
    return load_into_ours(peer)


# ---- the flat batch ----


def test_tokens_that_the_prefix_cache_holds_are_not_written(decoder):
    run = PlannedRunner(decoder)
    batch = InputBatch(max_num_seqs=16, max_model_len=256, block_size=4)
    first = run.new(prompt(8))
    batch.prepare(run.plan((first, 8)))
    again = run.new(prompt(8), first, 2)
    inputs = batch.prepare(run.plan((again, 1)))
    assert inputs.positions.tolist() == [7]
    assert inputs.attention.slot_mapping.tolist() == [-1]
    again.append_token(5)
    inputs = batch.prepare(run.plan((again, 1)))
    assert inputs.attention.slot_mapping.tolist() == [again.block_table[2].block_id * 4]


# ---- executing ----


def test_logits_come_back_for_the_sequences_that_sample_in_plan_order(decoder, peer):
    run = PlannedRunner(decoder)
    first, unfinished, second = (run.new(prompt(length, seed=length)) for length in (5, 50, 9))
    logits = run.run((second, 9), (unfinished, 20), (first, 5))
    assert logits.shape == (2, VOCAB_SIZE)
    for row, sequence in zip(logits, (second, first), strict=True):
        torch.testing.assert_close(row, peer_logits(peer, sequence.token_ids), rtol=1e-4, atol=1e-5)
    assert run.run((unfinished, 20)).shape == (0, VOCAB_SIZE)


# ---- sizes ----

# layers, keys and values, heads, head size, block size, float32
BYTES_PER_BLOCK = 2 * 2 * 2 * 8 * 4 * 4


def test_cache_and_context_length_default_to_memory_and_model(decoder, monkeypatch):
    from_memory = {"num_gpu_blocks_override": None}
    run = PlannedRunner(decoder, **from_memory, kv_cache_memory_bytes=10 * BYTES_PER_BLOCK + 5)
    assert run.runner.num_blocks == 10
    monkeypatch.setattr(
        "minivllm.runtime.model_runner.default_cpu_cache_bytes", lambda: 7 * BYTES_PER_BLOCK
    )
    assert PlannedRunner(decoder, **from_memory).runner.num_blocks == 7
    few = PlannedRunner(decoder, **from_memory, max_num_seqs=1, max_model_len=10)
    assert few.runner.num_blocks == 3, "no more than its sequences can fill"
    assert PlannedRunner(decoder, max_model_len=None).runner.max_model_len == 512
    assert PlannedRunner(decoder, max_model_len=100).runner.max_model_len == 100
    for options, named in (
        ({**from_memory, "kv_cache_memory_bytes": BYTES_PER_BLOCK - 1}, "kv_cache_memory_bytes"),
        ({"num_gpu_blocks_override": 10**15}, "num_gpu_blocks_override"),
        ({"max_model_len": 513}, "max_model_len is 513"),
    ):
        with pytest.raises(ConfigError, match=named):
            PlannedRunner(decoder, **options)
    # This sizes the cache on CUDA. Here it must only run and leave the real cache alone.
    run.runner._run_largest_step()
    assert not any(cache.any() for cache in run.runner._attention.kv_caches)
