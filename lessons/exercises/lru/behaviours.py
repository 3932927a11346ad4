"""Checks for lru: random operations on a queue and on a pool, then an engine short of blocks."""

import sys
from typing import Any

from minivllm.core.block_pool import FreeKVCacheBlockQueue, KVCacheBlock
from minivllm.errors import BlockPoolError
from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.checker.cases.pool_operations import operations_of, tell_operations
from minivllm.lessons.checker.cases.traces import draw_request, draw_trace, run_trace

KINDS = ("popleft", "append", "prepend", "remove")


def _operation(draw: Draw) -> list[Any]:
    return [draw.choice(KINDS), draw.integer(0, 3)]


def queue_operations(draw: Draw) -> Case:
    """Any operation on any block, allowed or not."""
    parts = [draw.list_of(_operation, 0, 8) for _ in range(3)]
    return {
        "num_blocks": draw.integer(1, 4),
        "cached": draw.list_of(lambda d: d.integer(0, 3), 0, 3),
        "operations": [operation for part in parts for operation in part],
    }


def pops(draw: Draw) -> Case:
    """Blocks come back in some order and are popped again, until the queue is empty."""
    return {
        "num_blocks": draw.integer(0, 4),
        "cached": draw.list_of(lambda d: d.integer(0, 3), 0, 3),
        "back": draw.list_of(lambda d: d.integer(0, 3), 0, 4),
    }


def _queue(case: Case) -> Any:
    """Return a queue and its blocks, some with a hash. Only `_put_back` looks at the hash."""
    blocks = [KVCacheBlock(block_id) for block_id in range(case["num_blocks"])]
    for block in blocks:
        block.block_hash = b"a name" if block.block_id in case["cached"] else None
    return FreeKVCacheBlockQueue(blocks), blocks


def pressed(draw: Draw) -> Case:
    """Few blocks, and prompts with the same beginning, so that the cache must evict blocks."""
    return draw_trace(
        draw, draw_request, num_blocks=draw.integer(5, 8), block_size=2, enable_prefix_caching=True
    )


@behaviour(task=1, cases=pops)
def reuses_the_front(case: Case) -> Lines:
    """the block at the front is reused next, and popleft of an empty queue raises

    The front is the block after the head sentinel. Which block is there when the queue is empty?
    """
    queue, blocks = _queue(case)
    for back in [*case["back"], None]:
        while queue.num_free_blocks:
            yield f"popleft() gives block {queue.popleft().block_id}; {queue.num_free_blocks} left"
        if back is not None and back < len(blocks):
            queue.append(blocks[back])
            yield f"append(block {back}); queue {queue.ids()}"
    try:
        queue.popleft()
        yield "popleft() of an empty queue gives something"
    except BlockPoolError:
        yield (
            f"popleft() of an empty queue is refused; queue {queue.ids()}, {queue.num_free_blocks}"
            " free"
        )


@behaviour(task=2, cases=queue_operations, examples=100)
def keeps_its_links(case: Case) -> Lines:
    """a block can join and leave anywhere, and never joins twice

    After each operation, follow the links in both directions. Which link still points to a block
    that has left?
    """
    # Any operation, allowed or not. After each, the queue is reported from both ends.
    queue, blocks = _queue(case)
    for kind, number in case["operations"]:
        block = blocks[number % len(blocks)]
        arguments = () if kind == "popleft" else (block,)
        operation = kind if kind == "popleft" else f"{kind}(block {block.block_id})"
        try:
            got = getattr(queue, kind)(*arguments)
            said = f" gives block {got.block_id}" if kind == "popleft" else ""
        except BlockPoolError:
            said = " is refused"
        linked = [
            block.block_id
            for block in blocks
            if block.prev_free is not None or block.next_free is not None
        ]
        names = [block.block_id for block in blocks if block.block_hash is not None]
        yield (
            f"{operation}{said}; queue {queue.ids()}; {queue.num_free_blocks} free;"
            " blocks with links"
            f" {linked}, with hashes {names}"
        )


@behaviour(
    task=2,
    cases=lambda draw: {"num_blocks": draw.integer(3, 200), "which": draw.integer(0, 199)},
    examples=20,
)
def takes_constant_time(case: Case) -> Lines:
    """joining and leaving take as many operations in a long queue as in a short one

    Each may look at the block and its two neighbours only. Count the blocks that you look at.
    """
    # Count the lines of Python that an operation runs; a clock would give a new time every run.
    queue, blocks = _queue({**case, "cached": range(case["num_blocks"])})
    block = blocks[case["which"] % len(blocks)]
    for act, arguments in (
        ("remove", (block,)),
        ("append", (block,)),
        ("popleft", ()),
        ("prepend", (blocks[0],)),
    ):
        if act == "prepend" and blocks[0].prev_free is not None:
            queue.remove(blocks[0])
        # A longer solution may run a few more lines without a search.
        num_lines = _lines_run(getattr(queue, act), arguments)
        yield (
            f"{act} looks at {'a few' if num_lines <= 30 else 'all the'} blocks; queue"
            f" {queue.ids()}"
        )


def _lines_run(act: Any, arguments: tuple[Any, ...]) -> int:
    lines = 0

    def count(frame: object, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        act(*arguments)
    finally:
        sys.settrace(before)
    return lines


@behaviour(
    task=4,
    cases=lambda draw: operations_of(draw, ("pop", "cache", "release", "touch")),
    examples=100,
)
def keeps_what_is_of_use(case: Case) -> Lines:
    """cached blocks are reused after uncached ones

    Two ends, two kinds of blocks: follow one with a hash and one without through _put_back.
    """
    yield from tell_operations(case)


@behaviour(task=5, cases=pressed, trace=True, examples=80)
def forgets_in_order(case: Case) -> Lines:
    """the engine evicts the same blocks at the same steps when blocks are short

    Open it with `minivllm exercise diff` and look at the free queue one step before the first
    difference.
    """
    yield from run_trace(case)
