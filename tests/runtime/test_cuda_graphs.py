"""Padded decode steps equal other steps, and padding leaves the KV cache alone.

The computation of a graph runs here directly, over the same tensors. `tests/identity/test_gpu.py`
tests recording and replaying.
"""

from itertools import pairwise

import pytest
import torch
from support.model.one_thread import one_thread
from support.model.tiny_models import (
    PEERS,
    PlannedRunner,
    load_into_ours,
    make_peer,
    steps_of_all_kinds,
)

from minivllm.kernels.mode import INTERPRETED
from minivllm.runtime import cuda_graphs
from minivllm.runtime.cuda_graphs import padded_sizes
from minivllm.runtime.step_result import Watch

__all__ = ["one_thread"]

interpreted = pytest.mark.skipif(not INTERPRETED, reason="the tiny models are on the CPU")
CPU = torch.device("cpu")


@pytest.mark.parametrize("most", [1, 7, 256, 4096])
def test_sizes_go_from_one_to_the_largest_batch_with_little_padding(most):
    sizes = padded_sizes(most)
    assert (sizes[0], sizes[-1]) == (1, most)
    assert len(sizes) <= 48
    for smaller, larger in pairwise(sizes):
        assert smaller < larger
        assert larger - (smaller + 1) <= larger / 5


# ---- a tiny model, interpreted ----


def static_runner(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], name: str = "llama", **options
) -> PlannedRunner:
    monkeypatch.setattr(cuda_graphs, "padded_sizes", lambda most: sizes)
    decoder = load_into_ours(make_peer(name))
    return PlannedRunner(
        decoder, attention_backend="triton:unified", max_num_seqs=sizes[-1], **options
    )


@interpreted
@pytest.mark.parametrize(
    ("name", "custom_ops"), [("llama", ["none"]), *((name, ["all"]) for name in PEERS)]
)
def test_a_padded_batch_gives_the_logits_of_an_unpadded_one(name, custom_ops, monkeypatch):
    run = static_runner(monkeypatch, [2, 7], name, custom_ops=custom_ops)
    ran = spy_on_runs(run, monkeypatch)
    plain = PlannedRunner(load_into_ours(make_peer(name)), max_num_seqs=7)
    for ours, theirs in zip(steps_of_all_kinds(run), steps_of_all_kinds(plain), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert ran == [7], "three decodes, and the other steps have chunks"


def spy_on_runs(run: PlannedRunner, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The padded size of each run."""
    graphs, sizes = run.runner._decode_graphs, []
    original = graphs._run_padded
    monkeypatch.setattr(graphs, "_run_padded", lambda size: (sizes.append(size), original(size)))
    return sizes


@interpreted
@pytest.mark.parametrize("custom_ops", [["none"], ["all"]], ids=["plain", "fused"])
def test_padding_is_never_read_and_never_written(custom_ops, monkeypatch):
    """Padding rows still hold a larger batch and ids that are in no cache."""
    run = static_runner(monkeypatch, [2, 6], custom_ops=custom_ops)
    sequences = [run.new([5 * i + j for j in range(1, 6)]) for i in range(6)]
    run.run(*((sequence, 5) for sequence in sequences))
    for sequence in sequences:
        sequence.append_token(9)
    run.run(*((sequence, 1) for sequence in sequences))  # fills all rows
    few = sequences[:3]
    for sequence in few:
        sequence.append_token(11)
    backend = run.runner._attention
    plan = run.plan(*((sequence, 1) for sequence in few))
    own = sorted({block.block_id for sequence in few for block in sequence.block_table})
    others = [block_id for block_id in range(run.runner.num_blocks) if block_id not in own]
    backend.kv_cache[:, :, others] = float("nan")
    before = backend.kv_cache.clone()
    backend._static.block_tables[3:] = 10**6
    logits = run.runner.execute_model(plan).logits

    plain = PlannedRunner(load_into_ours(make_peer("llama")))
    for sequence, row in zip(few, logits, strict=True):
        again = plain.new(sequence.token_ids)
        expected = plain.run((again, len(again.token_ids)))[0]
        torch.testing.assert_close(row, expected, rtol=1e-4, atol=1e-5)
    changed = (backend.kv_cache != before) & ~(backend.kv_cache.isnan() & before.isnan())
    # [num_layers, 2, num_blocks, num_kv_heads, block_size, head_size] -> which slots
    slots = changed.any(dim=5).any(dim=3).any(dim=1).any(dim=0).nonzero().tolist()
    position = 6  # of the token that this step adds
    assert slots == sorted(
        [sequence.block_table[position // 4].block_id, position % 4] for sequence in few
    )


@interpreted
def test_steps_of_the_same_padded_size_use_the_same_tensors(monkeypatch):
    """A graph has recorded addresses and shapes."""
    run = static_runner(monkeypatch, [6])
    graphs, seen = run.runner._decode_graphs, []
    original = graphs._forward

    def forward(token_ids, positions, metadata):
        static = metadata.static
        used = (token_ids, positions, metadata.slot_mapping)
        used += (static.block_tables, static.seq_lens, static.out)
        seen.append([(tensor.data_ptr(), tensor.shape, tensor.stride()) for tensor in used])
        return original(token_ids, positions, metadata)

    monkeypatch.setattr(graphs, "_forward", forward)
    for num_seqs in (1, 4, 6):
        run.run(*((run.new([num_seqs]), 1) for _ in range(num_seqs)))
        for sequence in range(num_seqs):
            run._free_slots.append(sequence)
    assert len(seen) == 3
    assert seen[0] == seen[1] == seen[2]


@interpreted
def test_steps_with_a_chunk_or_with_attention_mass_are_not_padded(monkeypatch):
    run = static_runner(monkeypatch, [4])
    ran = spy_on_runs(run, monkeypatch)
    first, second = run.new([1, 2, 3]), run.new([4])
    run.run((first, 3), (second, 1))
    assert ran == []
    first.append_token(5)
    result = run.runner.execute_model(run.plan((first, 1)), Watch(attention_mass=True))
    assert (ran, len(result.attention_mass)) == ([], 1)
    first.append_token(6)
    run.run((first, 1))
    assert ran == [4]
