"""Checks for own-policy: three rules that any policy keeps, and three levels of a score.

The rules compare lines, as other exercises do. For a level there is no right answer: the child
reports when each token of hidden traffic came, and `_level` judges these times here.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from runpy import run_path
from typing import Any

from minivllm.core.request_queue import RequestQueue
from minivllm.lessons.checker.cases.behaviour import Behaviour, Judge, behaviour
from minivllm.lessons.checker.cases.draw import Draw
from minivllm.lessons.checker.cases.traces import (
    build_engine,
    describe_trace,
    draw_trace,
    requests_with_priorities,
    run_trace,
)
from minivllm.lessons.checker.policy import score
from minivllm.lessons.checker.policy.play import play_traffic
from minivllm.lessons.checker.policy.traffic import draw_traffic

Case = dict[str, Any]
MOST_OVERTAKEN = 48
NUM_TRACES = 3
Least = Callable[[float], float]
FAR_BETTER = 1.2
AS_GOOD_AS_OURS = 0.95


def _own_policy() -> type[RequestQueue]:
    """The class, from a new run of its file, so that no case depends on what ran before it."""
    from minivllm.lessons.exercises.own_policy import policy as module

    own = module.OwnPolicy
    # A file of wrong/ has replaced the class, and derives its own from the one that was there.
    module.OwnPolicy = next(one for one in own.__mro__ if one.__module__ == module.__name__)
    try:
        return run_path(sys.modules[own.__module__].__file__)["OwnPolicy"]
    finally:
        module.OwnPolicy = own


def _run(case: Case, policy: type[RequestQueue]) -> Iterator[str]:
    yield from run_trace(case, build_engine(case, policy()))


def _trace(draw: Draw) -> Case:
    return draw_trace(draw, requests_with_priorities, scheduling_policy="priority")


@behaviour(
    "every request gets the tokens that any policy would give it",
    task=1,
    hint="Each sequence that joins the queue must leave it again, a preempted one too.",
    cases=_trace,
    examples=40,
)
def tokens(case: Case) -> Iterator[str]:
    tokens_of: dict[str, list[int]] = {}
    yield from describe_trace(case).splitlines()
    for line in _run(case, _own_policy()):
        if not line.startswith("{"):
            yield line
        elif (event := json.loads(line))["ev"] == "token.sampled":
            tokens_of.setdefault(event["seq_id"], []).append(event["token_id"])
    yield from (f"{name} gets the tokens {ids}" for name, ids in sorted(tokens_of.items()))


@behaviour(
    "the same requests give the same schedule, also after other requests",
    task=1,
    hint="What does your policy use besides the sequences? Is it new in each `OwnPolicy()`?",
    cases=lambda draw: {"trace": _trace(draw), "other": _trace(draw)},
    examples=20,
)
def repeats(case: Case) -> Iterator[str]:
    yield from describe_trace(case["trace"]).splitlines()
    policy = _own_policy()
    first = list(_run(case["trace"], policy))
    for _ in _run(case["other"], policy):
        pass
    pairs = enumerate(zip(first, _run(case["trace"], policy), strict=False), 1)
    differs = next((number for number, (a, b) in pairs if a != b), None)
    yield f"the first event that differs in a second run: {differs}"


def _stream_request(draw: Draw) -> Case:
    return {
        "alike": 0,
        "own": draw.choice([2, 1, 3, 5, 12]),
        "max_tokens": draw.integer(1, 2),
        "letter": 1,
        "priority": draw.choice([0, 0, 0, 0, 1]),
    }


def _stream(draw: Draw) -> Case:
    """More requests than can be served, one in each step, for a long time."""
    requests = draw.list_of(_stream_request, 100, 120)
    return {
        "num_blocks": 40,
        "block_size": 4,
        "max_num_seqs": 1,
        "max_num_batched_tokens": 16,
        "enable_prefix_caching": False,
        "scheduling_policy": "priority",
        "requests": [{**one, "arrives": number} for number, one in enumerate(requests)],
    }


@behaviour(
    f"no request is overtaken by more than {MOST_OVERTAKEN} later ones, however many come",
    task=1,
    hint="Which requests does your order put last? What lets them move forward while they wait?",
    cases=_stream,
    examples=6,
)
def overtakes(case: Case) -> Iterator[str]:
    yield f"{len(case['requests'])} requests, one before each step; one is served at a time"
    first_admissions: dict[str, int] = {}
    for line in _run(case, _own_policy()):
        event = json.loads(line) if line.startswith("{") else {"ev": line}
        if event["ev"] == "request.admitted":
            first_admissions[event["seq_id"]] = len(first_admissions)
    served = [
        first_admissions.get(f"r{n}.0", len(case["requests"])) for n in range(len(case["requests"]))
    ]
    for number, count in enumerate(score.num_overtaking(served)):
        if count > MOST_OVERTAKEN:
            one = case["requests"][number]
            yield (
                f"r{number}, with {one['own']} tokens and priority {one['priority']}, is overtaken"
                f" by {count}"
            )


# ---- the levels ----


def _hidden(draw: Draw) -> Case:
    return {"seeds": [draw.integer(0, 10**6) for _ in range(NUM_TRACES)]}


def serve(case: Case) -> Iterator[str]:
    for seed in case["seeds"]:
        yield from _lines_of_own(seed)


@cache  # all levels ask for the same traces
def _lines_of_own(seed: int) -> list[str]:
    return list(play_traffic(draw_traffic(seed), _own_policy()()))


@cache
def _figures_of_known(name: str, seed: int) -> score.PolicyFigures:
    from minivllm.core.request_queue import FCFSRequestQueue, PriorityRequestQueue

    class ShortestRequestQueue(PriorityRequestQueue):
        @staticmethod
        def _key(sequence: Any) -> tuple[int, int, int]:
            request = sequence.request
            return sequence.num_prompt_tokens, request.arrival_number, sequence.index

    queues = {
        "fcfs": FCFSRequestQueue,
        "priority": PriorityRequestQueue,
        "shortest": ShortestRequestQueue,
    }
    lines = list(play_traffic(draw_traffic(seed), queues[name]()))
    return score.figures_of(score.read_served(lines))


def _known(name: str, case: Case) -> list[score.PolicyFigures]:
    return [_figures_of_known(name, seed) for seed in case["seeds"]]


def _figures(lines: Sequence[str]) -> list[score.PolicyFigures]:
    served = score.read_served(lines)
    each = len(served) // NUM_TRACES
    return [score.figures_of(served[i * each : (i + 1) * each]) for i in range(NUM_TRACES)]


def _level(needed: Least) -> Judge:
    """Make a judge. needed: the score that this level needs, from that of our own policy"""

    def judge(case: Case, ours: list[str], yours: list[str]) -> str:
        try:
            served = score.read_served(yours)
        except ValueError:
            return "its results cannot be read"
        for one, expected in zip(served, score.read_served(ours), strict=False):
            if (one.arrived, len(one.times)) != (expected.arrived, len(expected.times)):
                return (
                    f"a request that came after {expected.arrived:.2f} s gets {len(one.times)}"
                    f" tokens in place of {len(expected.times)}"
                )
        if len(yours) != len(ours):
            return f"{len(yours)} of {len(ours)} requests were served"
        fcfs = _known("fcfs", case)
        least = needed(score.score_of(_figures(ours), fcfs))
        own = score.score_of(_figures(yours), fcfs)
        if own >= least:
            return ""
        return (
            f"the score is {own:.2f}, and this level needs {least:.2f}; fcfs has 1.00."
            f" {score.weakest(_figures(yours), fcfs)}"
        )

    return judge


def _table(case: Case, ours: list[str], yours: list[str]) -> list[str]:
    """The figures of all policies on the hidden traffic, and what each of them says."""
    policies = {name: _known(name, case) for name in ("fcfs", "priority", "shortest")}
    rows = score.table({**policies, "ours": _figures(ours), "yours": _figures(yours)})
    starving = f"more than {MOST_OVERTAKEN} would be too many: priority and shortest know no bound"
    meanings = [*score.MEANINGS, ("overtaken", starving)]
    return [*rows, *(f"  {title:<9}  {meaning}" for title, meaning in meanings)]


def _level_of(name: str, task: int, hint: str, least: Least, **more: Any) -> Behaviour:
    """A level. All levels have the same hidden traffic."""
    return Behaviour(name, task, hint, _hidden, serve, False, 1, judge=_level(least), **more)


beats_fcfs = _level_of(
    "level 1: on hidden traffic the score is above that of fcfs",
    2,
    "Who should be first when a chat and a long document wait? Who loses least by waiting?",
    lambda ours: 1.005,
    tell=_table,
)
far_better = _level_of(
    f"level 2: the score is {FAR_BETTER:g} or more",
    2,
    "Look at the weakest figure. Is it the order of those who wait, or the choice of victims?",
    lambda ours: FAR_BETTER,
)
as_good_as_ours = _level_of(
    "level 3, for ambition: the score is about that of our own policy, or better",
    3,
    "How many places is a priority worth, and how many tokens make up for one place?",
    lambda ours: AS_GOOD_AS_OURS * ours,
    is_bonus=True,
)
