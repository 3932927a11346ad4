"""Padded decode steps equal other steps, and padding leaves the KV cache alone.

The computation of a graph runs here directly, over the same tensors. `tests/identity/test_gpu.py`
tests recording and replaying.
"""

import random
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

from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import ScheduledDrafts, SchedulerOutput
from minivllm.kernels.mode import INTERPRETED
from minivllm.runtime import cuda_graphs
from minivllm.runtime.cuda_graphs import MAX_ROWS_WITH_DRAFTS, max_num_rows, padded_sizes
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


@pytest.mark.parametrize("max_num_seqs", [1, 16, 200, 1000])
def test_every_batch_without_drafts_has_rows_and_small_batches_have_rows_for_all_drafts(
    max_num_seqs,
):
    assert max_num_rows(max_num_seqs, 1) == max_num_seqs
    with_drafts = max_num_rows(max_num_seqs, 5)
    assert max_num_seqs <= with_drafts <= max(max_num_seqs, MAX_ROWS_WITH_DRAFTS)
    assert (with_drafts == 5 * max_num_seqs) == (5 * max_num_seqs <= MAX_ROWS_WITH_DRAFTS)


# ---- a tiny model, interpreted ----


def static_runner(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], name: str = "llama", **options
) -> PlannedRunner:
    monkeypatch.setattr(cuda_graphs, "padded_sizes", lambda most: sizes)
    decoder = load_into_ours(make_peer(name))
    options = {"max_num_seqs": sizes[-1], **options}
    return PlannedRunner(decoder, attention_backend="triton:unified", **options)


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
    run = static_runner(monkeypatch, [12], max_num_seqs=6, speculative_config=DRAFTING)
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
    drafted = run.new([1])
    run.runner.execute_model(plan_drafts(run, {drafted: [2, 3]}))
    assert len(seen) == 4
    assert seen[0] == seen[1] == seen[2] == seen[3]


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


# ---- drafts ----

DRAFTING = {"method": "ngram", "num_speculative_tokens": 3}
BLOCK_SIZE = 4


def drafting_runner(backend: str, **options: object) -> PlannedRunner:
    options = {"max_num_seqs": 4, "speculative_config": DRAFTING, **options}
    decoder = load_into_ours(make_peer("llama"))
    return PlannedRunner(decoder, attention_backend=backend, **options)


def plan_drafts(run: PlannedRunner, drafts: dict[Sequence, list[int]]) -> SchedulerOutput:
    """A decode of each sequence, with these drafts."""
    plan = run.plan(*((sequence, 1) for sequence in drafts))
    for index, (sequence, token_ids) in enumerate(drafts.items()):
        if token_ids:
            item, count = plan.scheduled[index], len(token_ids)
            plan.scheduled[index] = ScheduledDrafts(
                sequence, item.start, 1 + count, False, "decode", item.sampling, token_ids
            )
            plan.num_draft_tokens += count
            plan.total_num_scheduled_tokens += count
            sequence.num_computed_tokens += count
            run.give_blocks(sequence, sequence.num_computed_tokens)
    return plan


def roll_back(run: PlannedRunner, sequence: Sequence, num_rejected: int) -> None:
    """Forget rejected drafts. Their last block is the next one that is given away."""
    sequence.num_computed_tokens -= num_rejected
    while len(sequence.block_table) * BLOCK_SIZE >= sequence.num_computed_tokens + BLOCK_SIZE:
        run._free_blocks.append(sequence.block_table.pop())


@interpreted
@pytest.mark.parametrize("seed", [0, 1])
def test_steps_with_drafts_give_the_hidden_states_of_the_torch_reference(seed, monkeypatch):
    """Zero to three drafts, accepted or not; blocks change owners; all steps are padded ones."""
    rng = random.Random(seed)
    runs = [
        drafting_runner("triton:static", custom_ops=["all" if seed else "none"]),
        drafting_runner("torch"),
    ]
    ran = spy_on_runs(runs[0], monkeypatch)
    prompts = [[rng.randrange(256) for _ in range(length)] for length in (5, 8, 14)]
    sequences = [[run.new(prompt) for prompt in prompts] for run in runs]
    for run, own in zip(runs, sequences, strict=True):
        run.run(*((sequence, len(sequence.token_ids)) for sequence in own))
    assert ran == []
    num_shrunk = num_crossings = 0
    for step in range(8):
        tokens = [[rng.randrange(256) for _ in range(1 + rng.randrange(4))] for _ in prompts]
        right = [rng.randrange(len(token_ids)) for token_ids in tokens]
        order = rng.sample(range(3), k=3 if step % 4 else 2)  # rows move
        logits = []
        for run, own in zip(runs, sequences, strict=True):
            for i in order:
                own[i].append_token(tokens[i][0])
            plan = plan_drafts(run, {own[i]: tokens[i][1:] for i in order})
            logits.append(run.runner.execute_model(plan).logits)
            for i in order:
                before = len(own[i].block_table)
                first = own[i].num_tokens // BLOCK_SIZE
                num_crossings += own[i].num_computed_tokens // BLOCK_SIZE > first
                roll_back(run, own[i], len(tokens[i]) - 1 - right[i])
                num_shrunk += len(own[i].block_table) < before
                for token_id in tokens[i][1 : 1 + right[i]]:
                    own[i].append_token(token_id)
        assert len(logits[0]) == sum(len(tokens[i]) for i in order), "a row for each draft"
        torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-5)
    assert len(ran) == 8 and num_shrunk > 3 and num_crossings > 3


@interpreted
@pytest.mark.parametrize("custom_ops", [["none"], ["all"]], ids=["plain", "fused"])
def test_a_row_sees_the_keys_that_the_same_step_writes_for_the_drafts_before_it(custom_ops):
    """Before the step, the slots of the drafts hold NaN; and every row needs them."""
    run = drafting_runner("triton:static", custom_ops=custom_ops)
    sequence = run.new([1, 2, 3])
    run.run((sequence, 3))
    sequence.append_token(4)
    plan = plan_drafts(run, {sequence: [5, 6, 7]})  # token 4 and draft 5 are in two blocks
    slots = run.runner._batch.prepare(plan).attention.slot_mapping
    assert len(slots) == 4 and len({slot // BLOCK_SIZE for slot in slots.tolist()}) == 2
    cache = run.runner._attention.kv_cache
    for block, offset in (divmod(slot, BLOCK_SIZE) for slot in slots.tolist()):
        cache[:, :, block, :, offset] = float("nan")
    logits = run.runner.execute_model(plan).logits
    plain = PlannedRunner(load_into_ours(make_peer("llama")), attention_backend="torch")
    for end, row in enumerate(logits, start=4):
        again = plain.new([1, 2, 3, 4, 5, 6, 7][:end])
        torch.testing.assert_close(row, plain.run((again, end))[0], rtol=1e-4, atol=1e-5)


@interpreted
def test_chunks_longer_than_drafts_and_steps_with_too_many_rows_are_not_padded(monkeypatch):
    monkeypatch.setattr(cuda_graphs, "MAX_ROWS_WITH_DRAFTS", 6)
    run = drafting_runner("triton:unified", max_num_seqs=2)
    ran = spy_on_runs(run, monkeypatch)
    first, second = run.new([1, 2, 3, 4, 5]), run.new([6])
    run.run((second, 1))
    assert ran.pop() == 1
    second.append_token(7)
    run.run((first, 5), (second, 1))
    assert ran == []
    for drafts, sizes in (([8, 9], [6]), ([8, 9, 10], []), ([], [4])):
        first.append_token(11)
        second.append_token(12)
        plan = plan_drafts(run, {first: drafts, second: [13, 14]})
        run.runner.execute_model(plan)
        for sequence, count in ((first, len(drafts)), (second, 2)):
            roll_back(run, sequence, count)
        assert ran == sizes
        ran.clear()
