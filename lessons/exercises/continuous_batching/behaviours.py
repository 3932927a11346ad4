"""Checks for continuous-batching: who runs and who waits in each step, and whole event logs.

No delay is a whole number of steps: then rounding would decide whether it is over.
"""

import json
from typing import Any

from minivllm.core.admission import AdmissionPolicy, FCFSRequestQueue, create_request_queue
from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.checker.cases.manager_operations import request_of, sequence_of
from minivllm.lessons.checker.cases.traces import describe_trace, draw_trace, run_trace


def _request(draw: Draw) -> Case:
    return {
        "alike": 0,
        "own": draw.integer(1, 4),
        "max_tokens": draw.integer(1, 6),
        "arrives": draw.integer(0, 6),
        "letter": draw.integer(1, 3),
    }


def _trace(draw: Draw, **options: Any) -> Case:
    """Enough memory for all, and few slots."""
    fixed = {"num_blocks": 40, "block_size": 4, "enable_prefix_caching": False}
    return draw_trace(draw, _request, **fixed, **options, max_num_seqs=draw.integer(1, 3))


def _steps(case: Case) -> Lines:
    """For each step: who got tokens, and who was held."""
    yield from describe_trace(case).splitlines()
    ran: list[str] = []
    held = "nobody is held"
    for line in run_trace(case):
        event = json.loads(line) if line.startswith("{") else {"ev": line}
        if event["ev"] == "step.scheduled":
            ran.append(f"{event['seq_id']} ({event['num_tokens']})")
        elif event["ev"] == "request.deferred":
            held = f"{event['seq_id']} waits: {event['reason']} {event['need']} {event['free']}"
        elif event["ev"] == "step.end":
            yield f"step {event['step']}: {' '.join(ran) or 'nobody'} gets tokens; {held}"
            ran, held = [], "nobody is held"
        elif line[:1] != "{":
            yield line


@behaviour(task=1, cases=lambda draw: _trace(draw, batching="continuous"), examples=40)
def continuous(case: Case) -> Lines:
    """in a continuous batch, nobody waits beside a free slot

    Find the step in which a request waits. Was there a slot for it?
    """
    yield from _steps(case)


@behaviour(task=1, cases=lambda draw: _trace(draw, batching="static"), examples=60)
def static(case: Case) -> Lines:
    """a static batch admits nobody until it has ended, and then all who wait

    Who was waiting when this batch was formed, and who came later? When did it end?
    """
    yield from _steps(case)


@behaviour(task=1, cases=lambda draw: _trace(draw, batching="sequential"), examples=40)
def sequential(case: Case) -> Lines:
    """sequential batches have one request each

    How many requests may be in `_let_in`?
    """
    yield from _steps(case)


@behaviour(
    task=1,
    cases=lambda draw: _trace(
        draw,
        batching=draw.choice(["continuous", "static", "sequential"]),
        batch_delay=draw.integer(1, 5) / 100 + 0.005,
        batch_size=draw.integer(1, 4),
    ),
    examples=80,
)
def delays(case: Case) -> Lines:
    """a batch delay ends with a full batch, or with the time of the oldest

    How many wait, and for how long has the oldest of them waited? Either can end the delay.
    """
    yield from _steps(case)


@behaviour(
    task=1,
    cases=lambda draw: {
        "batching": draw.choice(["static", "sequential", "continuous"]),
        "running": draw.integer(0, 3),
        "waiting": draw.integer(1, 3),
        "nothing_scheduled": draw.boolean(),
    },
    examples=40,
)
def stands_still(case: Case) -> Lines:
    """a batch that cannot advance does not keep others waiting

    `nothing_scheduled` is true: no running sequence can get a token. Who could help?
    """
    # The scheduler's loop over the queue, once.
    numbers = range(case["running"] + case["waiting"])
    everybody = [sequence_of(number, [1]) for number in numbers]
    running, waiting = everybody[: case["running"]], FCFSRequestQueue()
    for sequence in everybody[case["running"] :]:
        waiting.add(sequence)
    policy, nothing_scheduled = AdmissionPolicy(case["batching"], 0.0, 4), case["nothing_scheduled"]
    yield (
        f"{case['batching']}, {len(running)} run, {len(waiting)} wait,"
        f" nothing_scheduled={nothing_scheduled}"
    )
    while waiting:
        hold = policy.hold(waiting, running, nothing_scheduled, 0.0)
        yield f"    {waiting.peek().seq_id}: {'joins' if hold is None else tuple(hold)}"
        if hold is not None:
            return
        running.append(waiting.pop())
        nothing_scheduled = False


def _queue(draw: Draw) -> Case:
    """Who waits, and for how long. All times are quarters of a second: exact as floats."""
    return {
        "batching": draw.choice(["continuous", "sequential", "static"]),
        "policy": draw.choice(["fcfs", "priority"]),
        "delay": draw.integer(1, 6),
        "batch_size": draw.integer(2, 5),
        "ages": draw.list_of(lambda d: d.integer(0, 6), 1, 4),
        "priorities": [draw.integer(0, 2) for _ in range(4)],
    }


@behaviour(task=1, cases=_queue, examples=80)
def oldest(case: Case) -> Lines:
    """the oldest ends the delay, wherever it waits in the queue

    With priorities, who waits at the head of the queue, and who has waited longest?
    """
    now, waiting = 10.0, create_request_queue(case["policy"])
    for number, age in enumerate(sorted(case["ages"], reverse=True)):
        request = request_of(number, [1], priority=case["priorities"][number])
        request.arrival_time = now - age / 4
        waiting.add(request.sequences[0])
        yield f"r{number} has waited {age / 4:g} s, priority {request.priority}"
    yield (
        f"{case['policy']}, {case['batching']}, batch_delay {case['delay'] / 4:g} s, batch_size"
        f" {case['batch_size']}"
    )
    policy = AdmissionPolicy(case["batching"], case["delay"] / 4, case["batch_size"])
    running: list[Any] = []
    while waiting:
        hold = policy.hold(waiting, running, not running, now)
        yield f"    {waiting.peek().seq_id}: {'joins' if hold is None else tuple(hold)}"
        if hold is not None:
            return
        running.append(waiting.pop())


@behaviour(
    task=2,
    cases=lambda draw: draw_trace(
        draw, batching=draw.choice(["continuous", "static", "sequential"])
    ),
    trace=True,
    examples=40,
)
def serves(case: Case) -> Lines:
    """the engine emits the same events in every kind of batching

    Open it with `minivllm exercise diff` at the first step in which another request joins.
    """
    yield from run_trace(case)
