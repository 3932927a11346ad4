"""Checks for own-policy: four rules that any policy keeps, and three levels of a score.

The rules compare lines, as other exercises do. For a level there is no right answer: the child
reports when each request of hidden traffic got its tokens, and that is judged here.
"""

import json
from collections.abc import Callable, Sequence
from functools import cache
from runpy import run_path
from typing import Any

from minivllm.core.admission import FCFSRequestQueue, PriorityRequestQueue, RequestQueue
from minivllm.events import types as ev
from minivllm.lessons.checker.cases.behaviour import Behaviour, Case, Draw, Judge, Lines, behaviour
from minivllm.lessons.checker.cases.traces import (
    build_engine,
    describe_trace,
    draw_trace,
    requests_with_priorities,
    run_trace,
)
from minivllm.lessons.checker.policy import (
    MAX_TOKENS,
    MEANINGS,
    PolicyFigures,
    PolicyRequest,
    draw_traffic,
    figures_of,
    guarded,
    play_traffic,
    score_of,
    table,
    weakest,
)
from minivllm.lessons.exercises.own_policy import policy as module

MOST_OVERTAKEN = 48  # as in the name of `overtakes`
NUM_TRACES = 3
Least = Callable[[float], float]
FAR_BETTER = 1.2
AS_GOOD_AS_OURS = 0.95


def _own_policy() -> type[RequestQueue]:
    """The class, from a new run of its file, so that no case depends on what ran before it."""
    return run_path(module.__file__)["OwnPolicy"]


def _run(case: Case, policy: type[RequestQueue]) -> Lines:
    yield from run_trace(case, build_engine(case, guarded(policy())))


def _trace(draw: Draw) -> Case:
    return draw_trace(draw, requests_with_priorities, scheduling_policy="priority")


@behaviour(task=1, cases=_trace, examples=40)
def tokens(case: Case) -> Lines:
    """every request gets the tokens that any policy would give it

    Each sequence that joins the queue must leave it again, a preempted one too.
    """
    tokens_of: dict[str, list[int]] = {}
    yield from describe_trace(case).splitlines()
    for line in _run(case, _own_policy()):
        if not line.startswith("{"):
            yield line
        elif (event := json.loads(line))["ev"] == "token.sampled":
            tokens_of.setdefault(event["seq_id"], []).append(event["token_id"])
    yield from (f"{name} gets the tokens {ids}" for name, ids in sorted(tokens_of.items()))


@behaviour(task=1, cases=lambda draw: {"trace": _trace(draw), "other": _trace(draw)}, examples=20)
def repeats(case: Case) -> Lines:
    """the same requests give the same schedule, also after other requests

    What does your policy use besides the sequences? Is it new in each `OwnPolicy()`?
    """
    yield from describe_trace(case["trace"]).splitlines()
    policy = _own_policy()
    first = list(_run(case["trace"], policy))
    for _ in _run(case["other"], policy):
        pass
    pairs = enumerate(zip(first, _run(case["trace"], policy), strict=False), 1)
    differs = next((number for number, (a, b) in pairs if a != b), None)
    yield f"the first event that differs in a second run: {differs}"


def _later_alike(case: Case, requests: list[PolicyRequest]) -> list[list[float]]:
    """When the tokens came that were written before request `cut` arrived."""
    now = draw_traffic(case["seed"])[case["cut"]].arrives
    served = play_traffic(requests, guarded(_own_policy()()))
    return [[t for t in times if t < now] for times in served[: case["cut"]]]


@behaviour(
    task=1,
    cases=lambda draw: {"seed": draw.integer(0, 10**6), "cut": draw.integer(20, 60)},
    examples=3,
)
def foresees(case: Case) -> Lines:
    """no decision depends on what comes later: who arrives, and how long an answer will be

    What does your policy look at besides the sequences? Nobody can know the rest.
    """
    requests = draw_traffic(case["seed"])
    yield f"traffic {case['seed']}, up to the arrival of request {case['cut']}"
    first = _later_alike(case, requests)
    # The same past, and another future: nobody else comes, and unfinished answers are longer.
    others = [
        old if len(times) == old.num_output_tokens else old._replace(num_output_tokens=MAX_TOKENS)
        for old, times in zip(requests, first, strict=False)
    ]
    pairs = enumerate(zip(first, _later_alike(case, others), strict=True))
    differs = next((number for number, (a, b) in pairs if a != b), None)
    yield f"the first request that is served differently if the future is another: {differs}"


def _stream_request(draw: Draw, lengths: list[int], most_tokens: int) -> Case:
    own = draw.choice(lengths)
    is_document = own >= max(lengths) // 2
    return {
        "alike": 0,
        "own": own,
        "max_tokens": draw.integer(1, most_tokens),
        "letter": 1,
        "priority": int(is_document) if draw.integer(0, 5) else 1 - int(is_document),
    }


def _stream(draw: Draw) -> Case:
    """More requests than can be served, one in each step, for a long time.

    Prompts are as long as in the traffic, and one is served at a time; or they are short, and there
    is too little memory for the running sequences.
    """
    is_short = draw.boolean()
    lengths, most_tokens = ([8, 8, 12, 16, 60], 16) if is_short else ([12, 2, 24, 40, 100, 200], 2)
    requests = draw.list_of(lambda d: _stream_request(d, lengths, most_tokens), 100, 120)
    return {
        "num_blocks": 12 if is_short else 28,
        "block_size": 8,
        "max_num_seqs": 4 if is_short else 1,
        "max_num_batched_tokens": 64,
        "enable_prefix_caching": False,
        "scheduling_policy": "priority",
        "check_invariants": False,  # it is long, and `tokens` checks them
        "requests": [{**one, "arrives": number} for number, one in enumerate(requests)],
    }


def _overtaken(case: Case) -> dict[int, int]:
    """For each request, how many later ones were admitted while it waited, also when preempted."""
    overtaken: dict[int, int] = {}
    waiting: set[int] = set()

    def number_of(name: str) -> int:
        return int(name[1:].partition(".")[0])

    def note(event: ev.Event) -> None:
        match event:
            case ev.RequestArrived(seq_id=name) | ev.RequestPreempted(seq_id=name):
                waiting.add(number_of(name))
                overtaken.setdefault(number_of(name), 0)
            case ev.RequestAdmitted(seq_id=name):
                waiting.remove(number_of(name))
                for earlier in waiting:
                    overtaken[earlier] += earlier < number_of(name)
            case ev.RequestResumed(seq_id=name):
                waiting.remove(number_of(name))

    engine = build_engine(case, guarded(_own_policy()()))
    engine.subscribe(note)
    for _ in run_trace(case, engine):
        pass
    return overtaken


@behaviour(task=1, cases=_stream, examples=10)
def overtakes(case: Case) -> Lines:
    """no request is overtaken by more than 48 later ones, however many come

    Which requests does your order put last? What lets them move forward while they wait?
    """
    slots = case["max_num_seqs"]
    yield f"{len(case['requests'])} requests, one before each step; at most {slots} run"
    for number, count in _overtaken(case).items():
        if count > MOST_OVERTAKEN:
            request = case["requests"][number]
            yield (
                f"r{number}, with {request['own']} tokens and priority {request['priority']}, is"
                f" overtaken by {count}"
            )


# ---- the levels ----


def _hidden(draw: Draw) -> Case:
    return {"seeds": [draw.integer(0, 10**6) for _ in range(NUM_TRACES)]}


def serve(case: Case) -> Lines:
    for seed in case["seeds"]:
        yield _played(seed)


@cache  # all levels ask for the same traces
def _played(seed: int) -> str:
    return json.dumps(play_traffic(draw_traffic(seed), guarded(_own_policy()())))


@cache
def _figures_of_known(name: str, seed: int) -> PolicyFigures:
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
    requests = draw_traffic(seed)
    return figures_of(requests, play_traffic(requests, queues[name]()))


def _known(name: str, case: Case) -> list[PolicyFigures]:
    return [_figures_of_known(name, seed) for seed in case["seeds"]]


def _figures(case: Case, lines: Sequence[str]) -> list[PolicyFigures]:
    pairs = zip(case["seeds"], lines, strict=True)
    return [figures_of(draw_traffic(seed), json.loads(line)) for seed, line in pairs]


def _unserved(case: Case, lines: Sequence[str]) -> str:
    """Which request did not get all of its tokens; empty if each did."""
    for seed, line in zip(case["seeds"], lines, strict=True):
        pairs = zip(draw_traffic(seed), json.loads(line), strict=True)
        for number, (request, times) in enumerate(pairs):
            if len(times) != (needed := request.num_output_tokens):
                return f"request {number} gets {len(times)} of its {needed} tokens"
    return ""


def _level(needed: Least) -> Judge:
    """Make a judge. needed: the score that this level needs, from that of our own policy"""

    def judge(case: Case, ours: list[str], yours: list[str]) -> str:
        if unserved := _unserved(case, yours):
            return unserved
        fcfs = _known("fcfs", case)
        least = needed(score_of(_figures(case, ours), fcfs))
        own = score_of(_figures(case, yours), fcfs)
        if own >= least:
            return ""
        return (
            f"the score is {own:.2f}, and this level needs {least:.2f}; fcfs has 1.00."
            f" {weakest(_figures(case, yours), fcfs)}"
        )

    return judge


def _table(case: Case, ours: list[str], yours: list[str]) -> list[str]:
    """The figures of all policies on the hidden traffic, and what each of them says."""
    if len(yours) != NUM_TRACES or _unserved(case, yours):
        return []
    policies = {name: _known(name, case) for name in ("fcfs", "priority", "shortest")}
    own = {"ours": _figures(case, ours), "yours": _figures(case, yours)}
    rows = table({**policies, **own})
    return [*rows, *(f"  {title:<9}  {meaning}" for title, meaning in MEANINGS)]


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
    "level 3, a challenge: the score is about that of our own policy, or better",
    3,
    "How many places is a priority worth, and how many tokens make up for one place?",
    lambda ours: AS_GOOD_AS_OURS * ours,
    is_bonus=True,
)
