"""Rules that must hold after every step, each checked from scratch.

The checks do not reuse the arithmetic of the scheduler or the pool. Each compares two independent
records: reference counts with block tables, the free queue with reference counts, the cache index
with the blocks. Tests call `check_invariants` after every step, and so does an engine that runs
with `--check-invariants`.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from minivllm.core.block_math import NOT_WRITTEN, hash_block_tokens, slot_mapping
from minivllm.core.request import RequestStatus
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput

_WAITING = (RequestStatus.WAITING, RequestStatus.PREEMPTED)


class Violation(NamedTuple):
    name: str
    detail: str


def check_invariants(scheduler: Scheduler, plan: SchedulerOutput | None = None) -> list[Violation]:
    """Return every violation in the scheduler's current state.

    plan: just made, and not sampled yet; None checks only the rules that hold at any time
    """
    violations = [*_blocks(scheduler), *_cache(scheduler), *_sequences(scheduler, plan)]
    if scheduler.connector is not None:
        violations += scheduler.connector.violations()
    if plan is not None:
        violations += _plan(scheduler, plan)
    return [Violation(*violation) for violation in violations]


def _blocks(scheduler: Scheduler) -> Iterator[tuple[str, str]]:
    pool = scheduler.kv_cache_manager.pool
    free_ids = pool.free_queue.ids()
    free = set(free_ids)
    if len(free) != len(free_ids):
        yield "no block is on the free queue twice", f"{free_ids}"
    if len(free_ids) != pool.free_queue.num_free_blocks:
        detail = f"{pool.num_free_blocks} != {len(free_ids)}"
        yield "the free queue's count equals its length", detail
    in_use = sum(block.ref_cnt > 0 for block in pool.blocks)
    if in_use + len(free) != len(pool.blocks):
        yield "in use + free = total", f"{in_use} + {len(free)} != {len(pool.blocks)}"
    owners = Counter(
        block.block_id
        for request in scheduler.requests.values()
        for sequence in request.sequences
        for block in sequence.block_table
    )
    owners += getattr(scheduler.connector, "held", Counter())
    for block in pool.blocks:
        if block.ref_cnt != owners[block.block_id]:
            yield "ref_cnt = entries in block tables", f"{block!r}: {owners[block.block_id]}"
        if (block.block_id in free) != (block.ref_cnt == 0):
            yield "a block is free exactly if its ref_cnt is 0", f"{block!r}"


def _cache(scheduler: Scheduler) -> Iterator[tuple[str, str]]:
    pool = scheduler.kv_cache_manager.pool
    cached = pool.cached_blocks()
    indexed = {(block_hash, block_id) for block_hash in cached for block_id in cached[block_hash]}
    carried = {
        (block.block_hash, block.block_id) for block in pool.blocks if block.block_hash is not None
    }
    for _, block_id in indexed ^ carried:
        yield "the cache index and the blocks agree", f"block {block_id}"
    size = scheduler.kv_cache_manager.block_size
    for sequence in scheduler.running:
        parent, extra_keys = None, sequence.request.extra_keys
        for i, block in enumerate(sequence.block_table):
            if block.block_hash is None:
                break  # the blocks after it have no hash either: their tokens are newer
            own = sequence.token_ids[i * size : (i + 1) * size]
            parent, extra_keys = hash_block_tokens(parent, own, extra_keys), ()
            if block.block_hash != parent:
                yield "a block's hash matches its tokens", f"{sequence!r}: {block!r}"


def _sequences(scheduler: Scheduler, plan: SchedulerOutput | None) -> Iterator[tuple[str, str]]:
    manager = scheduler.kv_cache_manager
    # Between planning and sampling, drafts count as computed tokens.
    scheduled = plan.scheduled if plan else ()
    num_drafts = {item.sequence: len(item.draft_token_ids) for item in scheduled}
    waiting, running = list(scheduler.waiting), scheduler.running
    loading = [s for s in waiting if s.status is RequestStatus.WAITING_FOR_REMOTE_KVS]
    slots = [sequence.slot for sequence in [*running, *loading]]
    if len(set(slots)) != len(slots) or None in slots:
        yield "every running sequence has its own slot", f"{slots}"
    kept = [slot for request in scheduler.requests.values() for slot in request.kept_slots]
    if None not in slots and sorted([*slots, *kept, *scheduler.slots.free]) != list(
        range(scheduler.slots.num_slots)
    ):
        detail = f"{slots}, {kept}, {scheduler.slots.free}"
        yield "every slot is either taken, kept or free", detail
    for request in scheduler.requests.values():
        runs = any(sequence.slot is not None for sequence in request.sequences)
        if len(request.kept_slots) != (request.num_unforked if runs else 0):
            yield "a running request keeps a slot for each future fork", f"{request.request_id}"
    known = [sequence for request in scheduler.requests.values() for sequence in request.sequences]
    unfinished = [sequence.seq_id for sequence in known if not sequence.is_finished]
    if sorted(unfinished) != sorted(sequence.seq_id for sequence in [*waiting, *running]):
        yield "every unfinished sequence either waits or runs", f"{unfinished}"
    for sequence in waiting:
        holds = sequence.block_table or sequence.status not in _WAITING
        if holds and sequence not in loading:
            yield "a waiting sequence holds no block", f"{sequence!r}"
    for sequence in running:
        if sequence.num_computed_tokens > sequence.num_tokens + num_drafts.get(sequence, 0):
            yield "num_computed_tokens <= num_tokens", f"{sequence!r}"
        if sequence.num_tokens != len(sequence.token_ids):
            yield "num_tokens equals the number of tokens", f"{sequence!r}"
        if sequence.num_tokens > scheduler.max_model_len:
            yield "num_tokens <= max_model_len", f"{sequence!r}"
        # With a fully cached prompt, the table may hold one token more than is counted as computed.
        num_held = max(sequence.num_computed_tokens, sequence.num_cached_tokens)
        if len(sequence.block_table) != manager.table_length(num_held):
            detail = f"{sequence!r}: {sequence.block_table}"
            yield "a block table has the length that its tokens need", detail
        if len({block.block_id for block in sequence.block_table}) != len(sequence.block_table):
            yield "no block is in a block table twice", f"{sequence!r}: {sequence.block_table}"


def _shared_writes(
    item: ScheduledSequence, slots: list[int], block_size: int
) -> Iterator[tuple[str, str]]:
    """Yield each write to a block that has several owners.

    Two kinds of owners are allowed, because they want the same content in the block: sequences that
    were forked at the end of this chunk, and sequences that hit a block filled in this step.
    """
    sequence = item.sequence
    num_just_forked = max(len(item.sampling) - 1, 0)
    for position, slot in enumerate(slots, item.start):
        block = sequence.block_table[position // block_size]
        if slot == NOT_WRITTEN or block.ref_cnt == 1 + num_just_forked:
            continue
        index = position // block_size
        if index >= len(sequence.block_hashes) or block.block_hash != sequence.block_hashes[index]:
            yield "no write to a shared block", f"{sequence!r} writes slot {slot} of {block!r}"


def _plan(scheduler: Scheduler, plan: SchedulerOutput) -> Iterator[tuple[str, str]]:
    manager = scheduler.kv_cache_manager
    total = sum(item.num_tokens for item in plan.scheduled)
    if total != plan.total_num_scheduled_tokens or total > plan.budget:
        yield "scheduled tokens <= budget", f"{total} of {plan.budget}"
    # After the limit is lowered, running sequences stay, but no sequence is admitted above it.
    num_kept = sum(len(request.kept_slots) for request in scheduler.requests.values())
    num_taken = len(scheduler.running) + num_kept
    # A sequence that has loaded took its slot earlier.
    admits = scheduler.connector is None and any(item.starts_fresh for item in plan.scheduled)
    if num_taken > scheduler.slots.limit and admits:
        detail = f"{num_taken} of {scheduler.slots.limit}"
        yield "no sequence is admitted above max_num_seqs", detail
    written: list[int] = []
    for item in plan.scheduled:
        sequence = item.sequence
        if item.num_tokens < 1 or item.start + item.num_tokens != sequence.num_computed_tokens:
            yield "a scheduled sequence advances by its tokens", f"{sequence!r}"
        slots = slot_mapping(sequence, item.start, item.num_tokens, manager.block_size)
        written += [slot for slot in slots if slot != NOT_WRITTEN]
        yield from _shared_writes(item, slots, manager.block_size)
    if len(set(written)) != len(written):
        yield "the slots written in a step are distinct", f"{sorted(written)}"
    if plan.preempted and any(item.starts_fresh for item in plan.scheduled):
        yield "no sequence is admitted in a step that preempts", f"{plan.preempted}"
    has_work = scheduler.running or scheduler.waiting
    waits_for_company = getattr(scheduler.connector, "held", None) or any(
        (sequence.deferred or [""])[0]
        in ("batch_delay", "grammar_not_compiled", "waiting_for_remote_kvs")
        for sequence in scheduler.waiting
    )
    # A preemption counts as progress, too: waiting beams may need the freed blocks.
    if has_work and not (plan.scheduled or plan.preempted or waits_for_company):
        yield "a step with work schedules something", "no tokens scheduled"
