"""Random operations on a block pool, with the pool's whole state after each operation.

Imported only by `behaviours.py` files, which the child process loads after the student's module.
Operations that the contract forbids (pop from an empty pool, cache a block twice) are never
run, because their result is unspecified.
"""

from collections.abc import Iterator
from typing import Any

from minivllm.clock import VirtualClock
from minivllm.core.block_pool import BlockPool
from minivllm.errors import BlockPoolError
from minivllm.events.bus import EventBus
from minivllm.events.recording.lines import encode_event
from minivllm.lessons.checker.cases.draw import Draw

Case = dict[str, Any]


def _operation(draw: Draw) -> list[int]:
    return [draw.integer(0, 59), draw.integer(0, 3)]


def operations_of(draw: Draw, kinds: tuple[str, ...]) -> Case:
    """Draw a small pool, and numbers that select allowed operations of these kinds."""
    # Join three lists: hypothesis draws short lists, but many mistakes need a long run.
    parts = [draw.list_of(_operation, 0, 10) for _ in range(3)]
    return {
        "num_blocks": draw.integer(1, 4),
        "kinds": list(kinds),
        "operations": [one for part in parts for one in part],
    }


def tell_operations(case: Case) -> Iterator[str]:
    bus = EventBus(VirtualClock())
    events: list[Any] = []
    bus.subscribe(events.append)
    pool = BlockPool(case["num_blocks"], bus)
    owners = [0] * case["num_blocks"]  # counted here, without reading the pool
    named: set[int] = set()
    for number, name in case["operations"]:
        allowed = _allowed(case["kinds"], owners, named)
        if not allowed:
            return
        kind, block_id = allowed[number % len(allowed)]
        result = _do(pool, kind, block_id, name, owners, named)
        queue = pool.free_queue.ids()
        counts = [block.ref_cnt for block in pool.blocks]
        cached = {key.hex()[:4]: sorted(ids) for key, ids in sorted(pool.cached_blocks().items())}
        kinds = [encode_event(event).decode() for event in events]
        yield (
            f"{result}; owners {counts}; free, next first: {queue} ({pool.num_free_blocks}); cached"
            f" {cached}; evicted {pool.num_evicted_blocks}; events {len(kinds)}"
        )
        yield from (f"    {kind.rstrip()}" for kind in kinds)
        events.clear()


def _allowed(kinds: list[str], owners: list[int], named: set[int]) -> list[tuple[str, int]]:
    """Allowed operations, as (kind, block)."""
    everyone = range(len(owners))
    blocks = {
        "pop": [i for i in everyone if not owners[i]][:1],
        "touch": list(everyone),
        "release": [i for i in everyone if owners[i]],
        "release again": [i for i in everyone if not owners[i]],
        "cache": [i for i in everyone if owners[i] and i not in named],
    }
    return [(kind, block_id) for kind in kinds for block_id in blocks[kind]]


def _do(pool: Any, kind: str, block_id: int, name: int, owners: list[int], named: set[int]) -> str:
    block = pool.blocks[block_id]
    if kind == "pop":
        got = pool.pop_free_block()
        owners[got.block_id] = 1
        named.discard(got.block_id)
        return f"pop_free_block() returns block {got.block_id}"
    if kind == "touch":
        owners[block_id] += 1
        return f"touch(block {block_id}) returns {pool.touch(block)!r}"
    if kind == "release":
        owners[block_id] -= 1
        pool.release(block)
        return f"release(block {block_id})"
    if kind == "cache":
        named.add(block_id)
        pool.cache_block(block, bytes([name]) * 32, None)
        return f"cache_block(block {block_id})"
    try:
        pool.release(block)
    except BlockPoolError:
        return f"release(block {block_id}), which has no owner, raises an error"
    return f"release(block {block_id}), which has no owner, is accepted"
