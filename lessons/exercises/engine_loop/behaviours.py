"""Checks for engine-loop: states to schedule, single steps, and whole runs with late arrivals."""

from typing import Any

from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.shown import small_engine


def _request(draw: Draw) -> Case:
    return {
        "prompt": draw.list_of(lambda d: d.integer(1, 31), 1, 6),
        "max_tokens": draw.integer(1, 5),
        "arrives": draw.integer(1, 9),
    }


def _case(draw: Draw, least: int = 1) -> Case:
    return {
        "max_num_seqs": draw.integer(1, 3),
        "requests": draw.list_of(_request, least, 6),
        "num_running": draw.integer(0, 3),
        "num_steps": draw.integer(1, 4),
    }


def _engine(case: Case) -> tuple[Any, list[Any], list[str]]:
    """An engine, the case's requests, and a list that fills with the batches of the model."""
    batches: list[str] = []

    class WatchedModel(small_engine.SmallModel):
        def execute(self, batch: Any) -> Any:
            batches.append(_batch(batch))
            return super().execute(batch)

    requests = [
        small_engine.SmallRequest(f"r{number}", request["prompt"], request["max_tokens"])
        for number, request in enumerate(case["requests"])
    ]
    return small_engine.SmallEngine(WatchedModel(), case["max_num_seqs"]), requests, batches


def _batch(batch: Any) -> str:
    return ", ".join(f"{work.request.name}: {work.num_tokens} tokens" for work in batch)


def _names(requests: Any) -> str:
    return " ".join(request.name for request in requests) or "nobody"


@behaviour(task=1, cases=_case, examples=100)
def schedules(case: Case) -> Lines:
    """free places go to the oldest waiting requests, and all that run are in the batch

    Write down who runs and who waits before and after. How many places are free?
    """
    # The first requests run already; those before the last have their prompts computed.
    engine, requests, _ = _engine(case)
    num_running = min(case["num_running"], case["max_num_seqs"])
    engine.running, engine.waiting = requests[:num_running], requests[num_running:]
    for number, request in enumerate(engine.running):
        if number < num_running - 1 or case["num_steps"] > 1:
            request.num_computed_tokens = len(request.prompt)
            request.output = [7]
    yield (
        f"{case['max_num_seqs']} places; {_names(engine.running)} runs,"
        f" {_names(engine.waiting)} waits"
    )
    yield f"    the batch is {_batch(engine.schedule())}"
    yield f"    afterwards {_names(engine.running)} runs, {_names(engine.waiting)} waits"


@behaviour(task=2, cases=_case, examples=100)
def steps(case: Case) -> Lines:
    """each request of the batch gets one token in each step, until it is finished

    Look at the first step that differs. Which tokens went through the model, and which were known
    before?
    """
    engine, requests, batches = _engine(case)
    engine.waiting = list(requests)
    yield f"{case['max_num_seqs']} places; {_names(requests)} waits"
    for number in range(1, case["num_steps"] + 1):
        batches.clear()
        outputs = [tuple(output) for output in engine.step()]
        yield f"step {number}: batch {batches}; outputs {outputs}"
        states = {asked.name: (asked.num_computed_tokens, len(asked.output)) for asked in requests}
        yield f"    computed tokens and output tokens {states}"
        yield f"    {_names(engine.running)} runs, {_names(engine.waiting)} waits"


@behaviour(task=2, cases=lambda draw: {**_case(draw, 0), "requests": []}, examples=5)
def rests(case: Case) -> Lines:
    """a step without requests calls no model

    Nobody waits and nobody runs. What may the model not be called with?
    """
    engine, _, batches = _engine(case)
    yield f"{list(engine.step())}, batches {batches}"


def _told(case: Case, arrives: list[int]) -> Lines:
    engine, requests, batches = _engine(case)
    at: dict[int, list[Any]] = {}
    for request, step in zip(requests, arrives, strict=True):
        at.setdefault(step, []).append(request)
    come = {step: [request.name for request in group] for step, group in sorted(at.items())}
    yield f"{case['max_num_seqs']} places; arrivals by step {come}"
    outputs = engine.run(at)
    for number, step in enumerate(outputs, 1):
        yield f"    step {number}: {[tuple(output) for output in step]}"
    yield f"    the batches of the model: {batches}"
    yield f"    in the end {_names(engine.running)} runs, {_names(engine.waiting)} waits"


@behaviour(task=3, cases=_case)
def runs(case: Case) -> Lines:
    """requests that arrive together are all served

    When may the loop end? Look at both lists.
    """
    yield from _told(case, [1] * len(case["requests"]))


@behaviour(task=3, cases=_case, examples=100)
def runs_with_arrivals(case: Case) -> Lines:
    """requests that arrive later can be in the very next step

    Find the first request that starts in another step. When did it arrive?
    """
    yield from _told(case, [request["arrives"] for request in case["requests"]])
