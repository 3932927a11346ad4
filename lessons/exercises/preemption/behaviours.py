"""Checks for preemption: victims, making room in a full cache, then the whole engine."""

from typing import Any

from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput
from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.checker.cases.manager_operations import (
    manager_of,
    request_of,
    scheduler_of,
    table_of,
)
from minivllm.lessons.checker.cases.traces import draw_trace, run_trace


def full_house(draw: Draw) -> Case:
    """Running and waiting sequences, and the order in which some are chosen."""

    def runs(draw: Draw) -> list[int]:
        return [draw.integer(1, 9), draw.integer(0, 3)]

    return {
        "policy": draw.choice(["fcfs", "priority"]),
        "caching": draw.boolean(),
        "running": draw.list_of(runs, 2, 5),
        "waiting": draw.list_of(runs, 0, 2),
        "chosen": draw.list_of(lambda d: d.integer(0, 4), 1, 4),
        "more": draw.integer(1, 8),
    }


def _house(case: Case, spare: int) -> Any:
    """Return a scheduler whose `running` sequences each lack one token; `spare` blocks are free."""
    size = 2
    num_blocks = sum(-(-length // size) for length, _ in case["running"]) + spare
    num_running = len(case["running"])
    options = {"scheduling_policy": case["policy"], "max_num_seqs": num_running}
    manager = manager_of(num_blocks, size, case["caching"])
    scheduler = scheduler_of(manager, 40, max_num_batched_tokens=100, **options)
    for number, (length, priority) in enumerate([*case["running"], *case["waiting"]]):
        # Every other prompt begins like the first one, so a part of it is cached.
        first = 10 * number if number % 2 else 0
        tokens = list(range(first, first + length))
        scheduler.add_request(request_of(number, tokens, priority=priority))
        if number < num_running:
            # One by one, so that all are admitted before any waits.
            scheduler.schedule(now=0.0)
            for sequence in scheduler.running:
                is_computed = sequence.num_computed_tokens == sequence.num_tokens
                if is_computed and not sequence.num_output_tokens:
                    sequence.append_token(99)
    return scheduler


def _state(scheduler: Any) -> Lines:
    manager = scheduler.kv_cache_manager
    for request in scheduler.requests.values():
        sequence = request.sequences[0]
        yield (
            f"    {sequence.seq_id}: {sequence.status.name}, tokens {sequence.token_ids},"
            f" {sequence.num_computed_tokens} computed, {sequence.num_cached_tokens} cached, blocks"
            f" {table_of(sequence)}, slot {sequence.slot}, preempted"
            f" {sequence.num_preemptions} times"
        )
    yield (
        f"    running {[sequence.seq_id for sequence in scheduler.running]}, waiting"
        f" {[sequence.seq_id for sequence in scheduler.waiting]}, free blocks"
        f" {manager.pool.free_queue.ids()}, free slots {sorted(scheduler.slots.free)}, cached"
        f" blocks {len(manager.pool.cached_blocks())}, preempted in all"
        f" {scheduler.counters.num_preemptions}"
    )


def _victims(case: Case) -> Lines:
    scheduler = _house(case, spare=0)
    positions: list[int] = []
    scheduler._bus.subscribe(lambda event: positions.append(getattr(event, "position", -1)))
    for index in case["chosen"]:
        if not scheduler.running:
            return
        victim = scheduler.running[index % len(scheduler.running)]
        before = len(positions)
        scheduler._preempt(victim, scheduler.running[0], Shortage(1, 0))
        yield f"{victim.seq_id} is preempted, positions in its events: {positions[before:]}"
        yield from _state(scheduler)


@behaviour(task=1, cases=lambda draw: {**full_house(draw), "waiting": [], "policy": "fcfs"})
def victims(case: Case) -> Lines:
    """a victim loses its blocks, its slot and its counts, and keeps its tokens

    After the victim has lost its blocks, which of its tokens have keys and values? What must its
    counts be?
    """
    yield from _victims(case)


@behaviour(task=2, cases=full_house)
def queues(case: Case) -> Lines:
    """a victim waits at the place that the policy gives it

    Other sequences are already waiting. Which one is next under fcfs, and which under priority?
    """
    yield from _victims(case)


@behaviour(task=3, cases=full_house, examples=100)
def makes_room(case: Case) -> Lines:
    """victims are preempted one after another, until there is enough room

    After each victim: is there enough room now, is any sequence left, and which item must leave the
    plan?
    """
    # Sequences get tokens in a plan, and then some need more blocks than are free.
    scheduler = _house(case, spare=len(case["chosen"]) % 2)
    plan = SchedulerOutput(9, 100)
    for sequence in scheduler.running:
        plan.scheduled.append(ScheduledSequence(sequence, sequence.num_computed_tokens, 1))
    for index in case["chosen"]:
        if not scheduler.running:
            return
        sequence = scheduler.running[index % len(scheduler.running)]
        plan.withdraw(sequence)  # a sequence whose turn it is has no place in the plan yet
        shortage = scheduler._make_room(plan, sequence, sequence.num_tokens + case["more"])
        yield (
            f"room for {sequence.num_tokens + case['more']} tokens of {sequence.seq_id}: last"
            f" shortage {None if shortage is None else tuple(shortage)}, preempted"
            f" {[sequence.seq_id for sequence in plan.preempted]}, in the plan"
            f" {[item.sequence.seq_id for item in plan.scheduled]}"
        )
        yield from _state(scheduler)


def _outgrows_memory(draw: Draw) -> Case:
    """A short prompt with a long answer: together, such requests outgrow the pool."""
    return {
        "alike": draw.integer(0, 4),
        "own": draw.integer(1, 3),
        "max_tokens": draw.integer(2, 8),
        "arrives": draw.integer(0, 3),
        "letter": draw.integer(1, 3),
    }


@behaviour(
    task=4,
    cases=lambda draw: draw_trace(
        draw, lambda d: {**_outgrows_memory(d), "n": d.integer(1, 2)}, num_blocks=7, block_size=2
    ),
    trace=True,
    examples=40,
)
def serves(case: Case) -> Lines:
    """the engine emits the same events with too little memory, under fcfs

    Open it with `minivllm exercise diff` and follow the victim: its blocks, its place in the queue,
    and what it computes again.
    """
    yield from run_trace(case)


@behaviour(
    task=4,
    cases=lambda draw: draw_trace(
        draw,
        lambda d: {**_outgrows_memory(d), "priority": d.integer(0, 3)},
        num_blocks=6,
        block_size=2,
        scheduling_policy="priority",
    ),
    trace=True,
    examples=40,
)
def serves_by_priority(case: Case) -> Lines:
    """the engine emits the same events with too little memory, under priority

    Here a victim may already be in this step's plan. Open it with `minivllm exercise diff` at the
    step that differs.
    """
    yield from run_trace(case)
