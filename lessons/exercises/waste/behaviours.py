"""Checks for waste: single measurements, then engines with both allocators."""

from collections.abc import Iterator
from typing import Any

from minivllm.events import kv_usage
from minivllm.events.state import RequestState, SequenceState
from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour, nearly
from minivllm.lessons.checker.cases.traces import (
    build_engine,
    draw_trace,
    requests_with_samples,
    run_trace,
)

SHORT = {"alike": 0, "own": 1, "max_tokens": 1, "arrives": 0, "letter": 1}
"""The first request of every trace. It fills no block."""


def _after_a_short_one(case: Case) -> Case:
    return {**case, "requests": [SHORT, *case["requests"]]}


def reservations(draw: Draw) -> Case:
    """A trace with the contiguous allocator, which reserves a run for the longest sequence."""
    case = draw_trace(
        draw,
        num_blocks=draw.integer(7, 20),
        block_size=draw.integer(2, 4),
        max_model_len=draw.integer(4, 12),
        enable_prefix_caching=False,
        kv_cache_allocator="contiguous",
    )
    return _after_a_short_one(case)


def _measured(case: Case) -> Iterator[Any]:
    """Yield the measurement of each step of the trace."""
    engine = build_engine(case)
    meter = kv_usage.KVUsageMeter(engine.log_header())
    engine.subscribe(meter.apply)
    num_yielded = 0
    for _ in run_trace(case, engine):
        yield from meter.samples[num_yielded:]
        num_yielded = len(meter.samples)


@behaviour(
    task=1,
    cases=lambda draw: {
        "slots": [draw.integer(0, 9) for _ in range(3)],
        "external": draw.integer(0, 9),
    },
    agree=nearly(1e-5),
)
def shares(case: Case) -> Lines:
    """waste is the unused part of the allocated slots

    Which slots are allocated, and which of these hold nothing? What if nothing is allocated?
    """
    used, reserved, internal = case["slots"]
    usage = kv_usage.KVUsage(1, 0.0, 100, used, reserved, internal, case["external"], 1, 1, 1)
    yield (
        f"used {used}, reserved {reserved}, internal {internal}, external {case['external']} of"
        f" 100: allocated {usage.allocated}, waste | {usage.waste:.6f}"
    )


def table(draw: Draw) -> Case:
    """A sequence at any moment, with the blocks that it needs now, or more that are reserved."""
    return {
        "block_size": draw.integer(1, 5),
        "prompt": draw.integer(1, 12),
        "max_tokens": draw.integer(1, 9),
        "most": draw.integer(0, 12),
        "computed": draw.integer(0, 20),
        "cached": draw.choice([0, draw.integer(0, 12)]),
        "spare_blocks": draw.integer(0, 3),
    }


@behaviour(task=2, cases=table, examples=100)
def slots(case: Case) -> Lines:
    """the slots of each table entry are split into used, wanted later, and never written

    How many tokens does the sequence hold now, and how many at its end? How many of these are in
    each block?
    """
    # One sequence, which may hold more cached tokens than computed ones.
    size, prompt = case["block_size"], case["prompt"]
    longest = prompt + 1 + case["most"]
    final = min(prompt + case["max_tokens"], longest) - 1
    computed, cached = min(case["computed"], final), min(case["cached"], prompt)
    blocks = [9 - i for i in range(-(-max(computed, cached) // size) + case["spare_blocks"])]
    meter = _meter(size, 32, longest)
    for name, max_tokens in (("other", 1), ("ada", case["max_tokens"])):
        meter.fold.requests[name] = RequestState(range(prompt), max_tokens)
    sequence = SequenceState(
        "ada",
        "RUNNING",
        prompt,
        num_computed_tokens=computed,
        num_cached_tokens=cached,
        block_table=blocks,
    )
    entries = [tuple(entry) for entry in meter._slots_of(sequence)]
    yield (
        f"blocks of {size}, prompt {prompt}, max_tokens {case['max_tokens']}, max_model_len"
        f" {longest}, {computed} tokens computed, {cached} cached: (block, used, wanted) {entries}"
    )


def _meter(
    block_size: int, num_blocks: int, max_model_len: int, allocator: str = "contiguous"
) -> Any:
    """Return the meter of an engine that has not run."""
    options = {"max_num_seqs": 4, "max_num_batched_tokens": 8, "kv_cache_allocator": allocator}
    sizes = {"block_size": block_size, "num_blocks": num_blocks, "max_model_len": max_model_len}
    return kv_usage.KVUsageMeter(
        build_engine({**options, **sizes, "enable_prefix_caching": False}).log_header()
    )


@behaviour(
    task=3,
    cases=lambda draw: {
        "block_size": draw.integer(2, 5),
        "entries": draw.list_of(
            lambda d: [d.integer(0, 3), d.integer(0, 5), d.integer(0, 5)], 0, 7
        ),
    },
)
def tallies(case: Case) -> Lines:
    """a shared block counts once, with the largest values of its owners

    Count each block in use once. What must the sum of the three results be?
    """
    size = case["block_size"]
    entries = []
    for block_id, used, more in case["entries"]:
        used = min(used, size)
        entries.append(kv_usage._BlockSlots(block_id, used, min(used + more, size)))
    tally = _meter(size, 4, size)._tally(entries)
    yield f"blocks of {size}, (block, used, wanted) {[*map(tuple, entries)]}: {tuple(tally)}"


@behaviour(
    task=3,
    cases=lambda draw: draw_trace(draw, requests_with_samples),
    examples=40,
    agree=nearly(1e-5),
)
def measures_sharing(case: Case) -> Lines:
    """used, reserved and internal slots add up to the blocks in use

    Look at the first step that differs. Which block is counted twice, or not at all?
    """
    for use in _measured(case):
        yield (
            f"step {use.step}: {use.num_blocks_in_use} blocks in {use.num_table_entries} entries:"
            f" used {use.used}, reserved {use.reserved}, internal {use.internal}, waste |"
            f" {use.waste:.6f}"
        )


@behaviour(
    task=4,
    cases=lambda draw: {
        "block_size": draw.integer(2, 4),
        "max_model_len": draw.integer(3, 12),
        "owners": [who for _ in range(2) for who in draw.list_of(lambda d: d.integer(0, 2), 6, 12)],
    },
)
def external(case: Case) -> Lines:
    """free blocks that no reservation can use are external waste

    Go through the free runs one by one. How many reservations fit into each, and what is left?
    """
    owners = case["owners"]
    for allocator in ("contiguous", "paged"):
        meter = _meter(case["block_size"], len(owners), case["max_model_len"], allocator)
        for block, ref_cnt in zip(meter.fold.blocks, owners, strict=True):
            block.ref_cnt = ref_cnt
        yield (
            f"{allocator}, reservations of {case['max_model_len']} tokens, blocks of"
            f" {case['block_size']}, owners {owners}: {meter._num_useless_blocks()} blocks"
        )


@behaviour(task=4, cases=reservations, examples=40)
def measures_reservations(case: Case) -> Lines:
    """an engine with reservations is measured correctly at every step

    Look at the first step that differs. Used, reserved, internal, external and free slots must add
    up to all slots.
    """
    for use in _measured(case):
        yield (
            f"step {use.step}: {use.num_running} run; used {use.used}, reserved {use.reserved},"
            f" internal {use.internal}, external {use.external} of {use.total}"
        )
