"""Checks for token-budget: the scheduler's parts, then the whole engine."""

from typing import Any

from minivllm.core.admission import Hold
from minivllm.core.kv_cache_manager import NO_COMPUTED_BLOCKS
from minivllm.core.request import Request
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.checker.cases.manager_operations import manager_of, request_of, scheduler_of
from minivllm.lessons.checker.cases.traces import (
    draw_trace,
    requests_with_priorities,
    requests_with_samples,
    run_trace,
)
from minivllm.sampling_params import SamplingParams

SIZE = 2
"""Tokens per block."""


def running_ones(draw: Draw) -> Case:
    """Running sequences with their computed and missing tokens, and a step's budget."""

    def runs(draw: Draw) -> list[int]:
        return [draw.integer(1, 6), draw.choice([1, 1, 1, 0, 2, 5]), draw.integer(0, 2)]

    return {
        "policy": draw.choice(["fcfs", "priority"]),
        "running": draw.list_of(runs, 1, 6),
        "budget": draw.integer(1, 12),
        "spare": 40,
    }


def greedy_ones(draw: Draw) -> Case:
    """Later sequences are more urgent, and some lack many tokens.

    So several victims are needed, and the last one is often the sequence that asked.
    """

    def runs(draw: Draw) -> list[int]:
        return [draw.integer(1, 4), draw.choice([1, 5])]

    running = draw.list_of(runs, 3, 5)
    return {
        "policy": "priority",
        "running": [[*entry, len(running) - index] for index, entry in enumerate(running)],
        "budget": draw.integer(8, 16),
    }


def waiting_ones(draw: Draw) -> Case:
    """Running and waiting sequences, and the tokens, slots and blocks that a step has left."""

    def waits(draw: Draw) -> list[int]:
        return [draw.integer(1, 8), draw.integer(1, 2)]

    return {
        "policy": "fcfs",
        "batching": draw.choice(["continuous", "continuous", "static"]),
        "running": [[2, 1, 0]] * draw.integer(0, 2),
        "waiting": draw.list_of(waits, 1, 5),
        "slots": draw.integer(0, 5),
        "spare": draw.integer(0, 12),
        "left": draw.integer(0, 16),
    }


def _scheduler(case: Case) -> Any:
    """Return a scheduler whose `running` sequences lack some tokens.

    `spare` blocks and `slots` batch slots are free.
    """
    num_blocks = sum(-(-done // SIZE) for done, _, _ in case["running"]) + case["spare"]
    num_slots = len(case["running"]) + case.get("slots", 0)
    scheduler = scheduler_of(
        manager_of(num_blocks, SIZE),
        100,
        scheduling_policy=case["policy"],
        batching=case.get("batching", "continuous"),
        max_num_seqs=max(num_slots, 1),
        max_num_batched_tokens=case.get("budget", 100),
    )
    scheduler.slots.limit = num_slots
    for number, (done, lacks, priority) in enumerate(case["running"]):
        request = request_of(number, list(range(done + lacks)), priority=priority)
        scheduler.requests[request.request_id] = request
        scheduler.kv_cache_manager.allocate_slots(request.sequences[0], done, NO_COMPUTED_BLOCKS)
        scheduler._admit(request.sequences[0], 0, done)
    for number, (length, samples) in enumerate(case.get("waiting", ())):
        params = SamplingParams(n=samples, temperature=1.0)
        scheduler.add_request(
            Request(f"w{number}", list(range(length)), params, arrival_number=50 + number)
        )
    return scheduler


def _names(sequences: Any) -> list[str]:
    return [sequence.seq_id for sequence in sequences]


def _tell(scheduler: Any, plan: Any) -> Lines:
    """Report item by item, so that the first different line is the first wrong decision."""
    for item in plan.scheduled:
        yield (
            f"    {item.sequence.seq_id} gets {item.num_tokens} tokens from {item.start} on,"
            f" sampling {_names(item.sampling)}"
        )
    yield f"    preempted {_names(plan.preempted)}, running {_names(scheduler.running)}"
    for sequence in scheduler.waiting:
        yield f"    {sequence.seq_id} waits: {sequence.deferred}"
    yield (
        f"    free blocks {scheduler.kv_cache_manager.pool.free_queue.ids()}, free slots"
        f" {sorted(scheduler.slots.free)}"
    )


def _tell_running(case: Case) -> Lines:
    scheduler = _scheduler(case)
    plan = SchedulerOutput(1, case["budget"])
    left, shortage = scheduler._schedule_running(plan)
    yield (
        f"of a budget of {case['budget']}, running sequences that lack"
        f" {[lacks for _, lacks, _ in case['running']]} tokens:"
    )
    yield from _tell(scheduler, plan)
    yield f"    left {left!r}, last shortage {None if shortage is None else tuple(shortage)}"


@behaviour(task=1, cases=running_ones)
def gives_out(case: Case) -> Lines:
    """running sequences get the tokens that they lack, in order, while budget is left

    Go through self.running in order. How many tokens does this sequence lack, and how many are left
    for it?
    """
    yield from _tell_running(case)


@behaviour(
    task=2,
    cases=lambda draw: {
        **draw.choice([running_ones, greedy_ones])(draw),
        "spare": draw.integer(0, 2),
    },
    examples=200,
)
def gives_again(case: Case) -> Lines:
    """a preempted sequence leaves the plan, and its share returns to the budget

    _make_room may remove sequences from self.running and from the plan. Where are you in the list
    afterwards, and how much budget is left?
    """
    yield from _tell_running(case)


@behaviour(task=3, cases=waiting_ones)
def holds(case: Case) -> Lines:
    """no sequence is admitted without budget or slots, and each hold has its reason

    Each sample of a request needs a slot, and they are admitted together or not at all.
    """
    scheduler = _scheduler(case)
    for left in (case["left"], 0, 1):
        hold = scheduler._hold(scheduler.waiting.peek(), SchedulerOutput(1, 100), left, 0.0)
        # With static batching, a full batch admits no more sequences.
        let_in = sorted(scheduler._admission._let_in)
        yield (
            f"{left} tokens and {scheduler.slots.num_free} slots left, the first in the queue has"
            f" {case['waiting'][0][0]} tokens and {case['waiting'][0][1]} samples:"
            f" {None if hold is None else tuple(hold)}, let in {let_in}"
        )
    scheduler._admission.hold = lambda *_: Hold("batch_delay", 1, 0)
    hold = scheduler._hold(scheduler.waiting.peek(), SchedulerOutput(1, 100), 100, 0.0)
    yield f"the admission policy has its own reason: {None if hold is None else tuple(hold)}"


@behaviour(task=4, cases=waiting_ones, examples=100)
def admits(case: Case) -> Lines:
    """waiting sequences are admitted in order, up to the first that does not fit

    Each admitted sequence costs tokens of the step. The first that is held or does not fit stops
    all behind it.
    """
    scheduler = _scheduler(case)
    plan = SchedulerOutput(1, 100)
    left = scheduler._schedule_waiting(plan, case["left"], 0.0)
    yield f"{case['left']} tokens left for prompts of {[length for length, _ in case['waiting']]}:"
    yield from _tell(scheduler, plan)
    yield f"    left {left!r}"


@behaviour(
    task=5,
    cases=lambda draw: draw_trace(
        draw, requests_with_samples, max_num_batched_tokens=draw.integer(4, 12), num_blocks=9
    ),
    trace=True,
    examples=40,
)
def serves(case: Case) -> Lines:
    """the engine emits the same events for random requests

    Open it with `minivllm exercise diff`: the panel Token budget shows the tokens of each sequence,
    the queue shows why the others wait.
    """
    yield from run_trace(case)


@behaviour(
    task=5,
    cases=lambda draw: draw_trace(
        draw, requests_with_priorities, num_blocks=6, block_size=2, scheduling_policy="priority"
    ),
    trace=True,
    examples=40,
)
def serves_by_priority(case: Case) -> Lines:
    """the engine emits the same events with too little memory, under priority

    The victim may be before the sequence that needs its blocks, and may already have tokens in this
    step's plan.
    """
    yield from run_trace(case)
