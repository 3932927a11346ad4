"""Padded decode steps equal other steps, and padding leaves the KV cache alone.

The computation of a graph runs here directly, over the same tensors.
`tests/more/identity/test_gpu.py` tests recording and replaying.
"""

from itertools import pairwise

import pytest
import torch
from support.model.needs import interpreted
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.model.paged_cases import DEVICE
from support.model.tiny_models import PlannedRunner, load_into_ours, make_peer

from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import ScheduledDrafts, SchedulerOutput
from minivllm.runtime import cuda_graphs
from minivllm.runtime.cuda_graphs import MAX_ROWS_WITH_DRAFTS, max_num_rows, padded_sizes


@pytest.mark.parametrize("most", [1, 7, 256, 4096])
def test_sizes_go_from_one_to_the_largest_batch_with_little_padding(most):
    sizes = padded_sizes(most)
    assert (sizes[0], sizes[-1]) == (1, most)
    assert len(sizes) <= 48
    for smaller, larger in pairwise(sizes):
        assert smaller < larger
        assert larger - (smaller + 1) <= larger / 5
    # Every batch without drafts has rows, and small batches have rows for all drafts.
    assert max_num_rows(most, 1) == most
    with_drafts = max_num_rows(most, 5)
    assert most <= with_drafts <= max(most, MAX_ROWS_WITH_DRAFTS)
    assert (with_drafts == 5 * most) == (5 * most <= MAX_ROWS_WITH_DRAFTS)


# ---- a tiny model, interpreted ----


def static_runner(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], name: str = "llama", **options
) -> PlannedRunner:
    monkeypatch.setattr(cuda_graphs, "padded_sizes", lambda most: sizes)
    decoder = load_into_ours(make_peer(name), linear_backend="torch", device=DEVICE)
    options = {"max_num_seqs": sizes[-1], **options}
    return PlannedRunner(decoder, attention_backend="triton:unified", **options)


def spy_on_runs(run: PlannedRunner, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The padded size of each run."""
    graphs, sizes = run.runner._decode_graphs, []
    original = graphs._run_padded
    monkeypatch.setattr(graphs, "_run_padded", lambda size: (sizes.append(size), original(size)))
    return sizes


@interpreted
def test_padding_is_never_read_and_never_written(monkeypatch):
    """Padding rows still hold a larger batch and ids that are in no cache."""
    run = static_runner(monkeypatch, [2, 4], "qwen3", custom_ops=["all"])
    ran = spy_on_runs(run, monkeypatch)
    sequences = [run.new([5 * i + j for j in range(1, 4)]) for i in range(4)]
    run.run(*((sequence, 3) for sequence in sequences))
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
    assert ran == [4, 4], "three rows are padded to four"

    plain = PlannedRunner(load_into_ours(make_peer("qwen3")))
    for sequence, row in zip(few, logits, strict=True):
        again = plain.new(sequence.token_ids)
        expected = plain.run((again, len(again.token_ids)))[0]
        torch.testing.assert_close(row, expected, rtol=1e-4, atol=1e-5)
    changed = (backend.kv_cache != before) & ~(backend.kv_cache.isnan() & before.isnan())
    # [num_layers, 2, num_blocks, num_kv_heads, block_size, head_size] -> which slots
    slots = changed.any(dim=5).any(dim=3).any(dim=1).any(dim=0).nonzero().tolist()
    position = 4  # of the token that this step adds
    assert slots == sorted(
        [sequence.block_table[position // 4].block_id, position % 4] for sequence in few
    )


# ---- drafts ----

DRAFTING = {"method": "ngram", "num_speculative_tokens": 3}
BLOCK_SIZE = 4


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


@interpreted
def test_a_row_sees_the_keys_that_the_same_step_writes_for_the_drafts_before_it():
    """Before the step, the slots of the drafts hold NaN; and every row needs them."""
    decoder = load_into_ours(make_peer("llama"))
    options = {"max_num_seqs": 4, "speculative_config": DRAFTING}
    run = PlannedRunner(decoder, attention_backend="triton:static", **options)
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
    plain = PlannedRunner(decoder, attention_backend="torch")
    for end, row in enumerate(logits, start=4):
        again = plain.new([1, 2, 3, 4, 5, 6, 7][:end])
        torch.testing.assert_close(row, plain.run((again, end))[0], rtol=1e-4, atol=1e-5)
