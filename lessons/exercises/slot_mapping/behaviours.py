"""Checks for slot-mapping: chunks with random block tables, then the whole engine."""

from operator import index

from minivllm.core.block_math import slot_mapping
from minivllm.core.block_pool import KVCacheBlock
from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.checker.cases.manager_operations import sequence_of, table_of
from minivllm.lessons.checker.cases.traces import draw_trace, requests_with_samples, run_trace


def chunk(draw: Draw, num_cached: int) -> Case:
    """A random block table, with its blocks in any order, and a chunk within it."""
    size = draw.integer(1, 5)
    table = list(dict.fromkeys(draw.list_of(lambda d: d.integer(0, 30), 1, 6)))
    return {
        "block_size": size,
        "table": table,
        "start": draw.integer(0, 20),
        "num_tokens": draw.integer(1, 20),
        "num_cached": num_cached,
    }


def _tell(case: Case) -> Lines:
    size, table = case["block_size"], case["table"]
    room = size * len(table)
    start = case["start"] % room
    num_tokens = 1 + (case["num_tokens"] - 1) % (room - start)
    sequence = sequence_of(0, list(range(room)))
    sequence.block_table = [KVCacheBlock(block_id) for block_id in table]
    sequence.num_cached_tokens = case["num_cached"]
    slots = slot_mapping(sequence, start, num_tokens, size)
    yield (
        f"tokens {start} to {start + num_tokens - 1} in blocks of {size}, table {table},"
        f" {case['num_cached']} tokens cached: "
        f"slots {[index(slot) for slot in slots]}"  # numpy integers are fine
    )
    yield f"    the table is {table_of(sequence)} afterwards"


@behaviour(task=1, cases=lambda draw: chunk(draw, num_cached=0))
def slots(case: Case) -> Lines:
    """a token's slot follows from its position and the block table

    Which entry of the table is position 5 in, with blocks of 4, and how far into that block is it?
    """
    yield from _tell(case)


@behaviour(task=2, cases=lambda draw: chunk(draw, num_cached=draw.integer(0, 20)))
def cached(case: Case) -> Lines:
    """cached tokens are not written again

    num_cached_tokens says how many tokens are cached, counted from the first. Each still has an
    entry in the list.
    """
    yield from _tell(case)


@behaviour(
    task=3,
    cases=lambda draw: draw_trace(
        draw, requests_with_samples, enable_prefix_caching=True, max_num_batched_tokens=8
    ),
    trace=True,
)
def serves(case: Case) -> Lines:
    """the engine emits the same events for random requests

    Open it with `minivllm exercise diff`: which block was read at the point where the text changes?
    """
    yield from run_trace(case)
