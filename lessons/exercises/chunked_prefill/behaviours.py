"""Checks for chunked-prefill: single chunks, one sequence, then engines with small budgets."""

from typing import Any

from minivllm.core.scheduler_output import ScheduledSequence
from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.checker.cases.manager_operations import manager_of, scheduler_of, sequence_of
from minivllm.lessons.checker.cases.traces import (
    draw_request,
    draw_trace,
    requests_with_samples,
    run_trace,
)


def single_chunk(draw: Draw, chunked: bool) -> Case:
    """A sequence, perhaps with output (it was preempted), and the rest of a step's budget."""
    return {
        "chunked": chunked,
        "output": draw.integer(0, 5),
        "prompt": draw.integer(1, 12),
        "start": draw.integer(0, 40),
        "budget": draw.integer(1, 20),
    }


def chunks(draw: Draw) -> Case:
    """A sequence, and the tokens that it gets in each step."""
    parts = [draw.list_of(lambda d: d.integer(1, 6), 1, 5) for _ in range(2)]
    return {
        "output": draw.integer(0, 6),
        "prompt": draw.integer(1, 14),
        "preempted": draw.integer(0, 2),
        "chunks": [chunk for part in parts for chunk in part],
    }


def _scheduler(chunked: bool) -> Any:
    options = {"max_num_seqs": 4, "max_num_batched_tokens": 64, "enable_chunked_prefill": chunked}
    return scheduler_of(manager_of(40, 4, True), 64, **options)


def _sequence(case: Case) -> Any:
    sequence = sequence_of(0, list(range(case["prompt"])))
    for token_id in range(case["output"]):
        sequence.append_token(100 + token_id)
    sequence.num_preemptions = case.get("preempted", 0)
    return sequence


def _tell_chunk(case: Case) -> Lines:
    sequence = _sequence(case)
    start = case["start"] % sequence.num_tokens
    got = _scheduler(case["chunked"])._first_chunk(sequence, start, case["budget"])
    yield (
        f"{sequence.num_prompt_tokens} prompt and {sequence.num_output_tokens} output tokens,"
        f" {start} from the cache, {case['budget']} left in the step: gets {got!r}"
    )


@behaviour(task=1, cases=lambda draw: single_chunk(draw, chunked=True))
def first_chunk(case: Case) -> Lines:
    """an admitted sequence gets the tokens that it lacks, up to the rest of the step's budget

    How many tokens does it lack after the cached ones, and how many has the step left?
    """
    yield from _tell_chunk(case)


@behaviour(task=2, cases=lambda draw: single_chunk(draw, chunked=False))
def whole_prompt(case: Case) -> Lines:
    """without chunked prefill, a prompt is computed in one step, or waits

    enable_chunked_prefill is off. May a sequence get only a part of the tokens that it lacks?
    """
    yield from _tell_chunk(case)


@behaviour(task=3, cases=chunks)
def advances(case: Case) -> Lines:
    """each chunk counts its tokens, and the one with the last known token predicts

    From chunk to chunk, follow num_computed_tokens and item.sampling.
    """
    scheduler = _scheduler(chunked=True)
    sequence = _sequence(case)
    for num_tokens in case["chunks"]:
        start = sequence.num_computed_tokens
        num_tokens = min(num_tokens, sequence.num_tokens - start)
        if num_tokens < 1:
            return
        item = ScheduledSequence(sequence, start, num_tokens)
        scheduler._advance(item)
        yield (
            f"tokens {start} to {start + num_tokens - 1} of {sequence.num_prompt_tokens} +"
            f" {sequence.num_output_tokens}: {sequence.num_computed_tokens} computed, {item.kind},"
            f" sampling {[sequence.seq_id for sequence in item.sampling]}"
        )


@behaviour(
    task=4,
    cases=lambda draw: draw_trace(
        draw, requests_with_samples, max_num_batched_tokens=draw.integer(4, 6), num_blocks=9
    ),
    trace=True,
    examples=40,
)
def serves(case: Case) -> Lines:
    """the engine emits the same events for prompts longer than a step

    Open it with `minivllm exercise diff` and look at the tokens of each step in the Budget panel.
    """
    yield from run_trace(case)


@behaviour(
    task=4,
    cases=lambda draw: draw_trace(
        draw,
        draw_request,
        enable_chunked_prefill=False,
        num_blocks=8,
        block_size=2,
        max_num_batched_tokens=16,
    ),
    trace=True,
    examples=30,
)
def serves_whole_prompts(case: Case) -> Lines:
    """the engine emits the same events without chunked prefill

    No prompt is split here: if it does not fit into the rest of the step, it waits for the next
    one.
    """
    yield from run_trace(case)
