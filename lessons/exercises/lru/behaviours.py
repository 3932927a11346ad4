"""What the free queue must do: random operations on a queue alone and on a pool, then the whole
engine, short of blocks.
"""

from collections.abc import Iterator
from typing import Any

from minivllm.lessons.checker.cases.behaviour import behaviour
from minivllm.lessons.checker.cases.draw import Draw
from minivllm.lessons.checker.cases.pool_operations import operations_of, tell_operations
from minivllm.lessons.checker.cases.traces import request, run_trace, trace

Case = dict[str, Any]
KINDS = ("popleft", "append", "prepend", "remove")


def _operation(draw: Draw) -> list[Any]:
    return [draw.choice(KINDS), draw.integer(0, 3)]


def queue_operations(draw: Draw) -> Case:
    """Any operation on any block, whether it is allowed or not."""
    parts = [draw.list_of(_operation, 0, 8) for _ in range(3)]
    return {
        "num_blocks": draw.integer(1, 4),
        "cached": draw.list_of(lambda d: d.integer(0, 3), 0, 3),
        "operations": [one for part in parts for one in part],
    }


def pops(draw: Draw) -> Case:
    """Blocks come back in some order and go again, to the last one and beyond."""
    return {
        "num_blocks": draw.integer(0, 4),
        "cached": draw.list_of(lambda d: d.integer(0, 3), 0, 3),
        "back": draw.list_of(lambda d: d.integer(0, 3), 0, 4),
    }


def _queue(case: Case) -> Any:
    """A queue, and its blocks. Some hold a name: that decides where `_put_back` lets a block join,
    and nothing after it.
    """
    from minivllm.core.block_pool import FreeKVCacheBlockQueue, KVCacheBlock

    blocks = [KVCacheBlock(block_id) for block_id in range(case["num_blocks"])]
    for block in blocks:
        block.block_hash = b"a name" if block.block_id in case["cached"] else None
    return FreeKVCacheBlockQueue(blocks), blocks


def pressed(draw: Draw) -> Case:
    """Few blocks, and prompts that begin alike: the cache must forget, and what it forgets
    shows.
    """
    return trace(
        draw, request, num_blocks=draw.integer(5, 8), block_size=2, enable_prefix_caching=True
    )


@behaviour(
    "the block at the front is reused next, and an empty queue says so",
    task=1,
    points=1,
    hint=(
        "The front is the block after the head sentinel. What stands there when the queue is empty?"
    ),
    cases=pops,
)
def reuses_the_front(case: Case) -> Iterator[str]:
    """Pops to the end and one more."""
    from minivllm.errors import BlockPoolError

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


@behaviour(
    "a block joins and leaves anywhere, and never twice",
    task=2,
    points=3,
    hint=(
        "After each operation walk the links in both directions: whose link still points to a block"
        " that has left?"
    ),
    cases=queue_operations,
    examples=100,
)
def keeps_its_links(case: Case) -> Iterator[str]:
    """Everything, allowed or not, with the queue told after it from both ends."""
    from minivllm.errors import BlockPoolError

    queue, blocks = _queue(case)
    for kind, number in case["operations"]:
        block = blocks[number % len(blocks)]
        arguments = () if kind == "popleft" else (block,)
        told = kind if kind == "popleft" else f"{kind}(block {block.block_id})"
        try:
            got = getattr(queue, kind)(*arguments)
            said = f" gives block {got.block_id}" if kind == "popleft" else ""
        except BlockPoolError:
            said = " is refused"
        linked = [
            one.block_id for one in blocks if one.prev_free is not None or one.next_free is not None
        ]
        names = [one.block_id for one in blocks if one.block_hash is not None]
        yield (
            f"{told}{said}; queue {queue.ids()}; {queue.num_free_blocks} free; blocks with links"
            f" {linked}, with names {names}"
        )


@behaviour(
    "leaving and joining take as many steps in a long queue as in a short one",
    task=2,
    points=1,
    hint=(
        "Each may touch the block and its two neighbours, and no other: count the blocks that you"
        " look at."
    ),
    cases=lambda draw: {"num_blocks": draw.integer(3, 200), "which": draw.integer(0, 199)},
    examples=20,
)
def takes_constant_time(case: Case) -> Iterator[str]:
    """Lines of Python that one act runs: counted, for a clock would say something else each
    time.
    """
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
        # Whoever writes it in a few more lines has not searched.
        num_lines = _lines_run(getattr(queue, act), arguments)
        yield (
            f"{act} looks at {'a few' if num_lines <= 30 else 'all the'} blocks; queue"
            f" {queue.ids()}"
        )


def _lines_run(act: Any, arguments: tuple[Any, ...]) -> int:
    import sys

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
    "what can still be hit is reused after what cannot",
    task=4,
    points=2,
    hint="Two ends, two kinds of blocks: follow one with a name and one without through _put_back.",
    cases=lambda draw: operations_of(draw, ("pop", "cache", "release", "touch")),
    examples=100,
)
def keeps_what_is_of_use(case: Case) -> Iterator[str]:
    """A pool on this queue."""
    yield from tell_operations(case)


@behaviour(
    "short of blocks, the engine forgets the same things at the same steps",
    task=5,
    points=3,
    hint=(
        "Open it with `minivllm exercise diff`: look at the free queue one step before the first"
        " difference."
    ),
    cases=pressed,
    trace=True,
    examples=80,
)
def forgets_in_order(case: Case) -> Iterator[str]:
    """The whole engine."""
    yield from run_trace(case)
