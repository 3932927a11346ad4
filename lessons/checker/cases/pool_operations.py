"""Random operations on a block pool, with the pool's whole state after each operation.

Operations that the contract forbids (pop from an empty pool, cache a block twice) are never run.
"""

from collections.abc import Iterator
from typing import Any

from minivllm.clock import VirtualClock
from minivllm.core.block_pool import BlockPool
from minivllm.errors import BlockPoolError
from minivllm.events.bus import EventBus
from minivllm.events.recording.lines import encode_event
from minivllm.lessons.checker.cases.draw import Case, Draw


def _operation(draw: Draw) -> list[int]:
    return [draw.integer(0, 59), draw.integer(0, 3)]


def operations_of(draw: Draw, kinds: tuple[str, ...]) -> Case:
    # Join three lists, because many mistakes need a long run.
    parts = [draw.list_of(_operation, 0, 10) for _ in range(3)]
    operations = [operation for part in parts for operation in part]
    return {"num_blocks": draw.integer(1, 4), "kinds": list(kinds), "operations": operations}


def tell_operations(case: Case) -> Iterator[str]:
    bus = EventBus(VirtualClock())
    events: list[Any] = []
    bus.subscribe(events.append)
    pool = BlockPool(case["num_blocks"], bus)
    owners = [0] * case["num_blocks"]  # counted here, without reading the pool
    named: set[int] = set()
    for number, name in case["operations"]:
        owned = [i for i, count in enumerate(owners) if count]
        free = [i for i, count in enumerate(owners) if not count]
        allowed_blocks = {
            "pop": free[:1],
            "touch": list(range(len(owners))),
            "release": owned,
            "release again": free,
            "cache": [i for i in owned if i not in named],
        }
        allowed = [(kind, i) for kind in case["kinds"] for i in allowed_blocks[kind]]
        if not allowed:
            return
        kind, block_id = allowed[number % len(allowed)]
        result = _do(pool, kind, block_id, name, owners, named)
        queue = pool.free_queue.ids()
        counts = [block.ref_cnt for block in pool.blocks]
        cached = {key.hex()[:4]: sorted(ids) for key, ids in sorted(pool.cached_blocks().items())}
        yield (
            f"{result}; owners {counts}; free, next first: {queue} ({pool.num_free_blocks}); cached"
            f" {cached}; evicted {pool.num_evicted_blocks}; events {len(events)}"
        )
        yield from (f"    {encode_event(event).decode().rstrip()}" for event in events)
        events.clear()


def _do(pool: Any, kind: str, block_id: int, name: int, owners: list[int], named: set[int]) -> str:
    block = pool.blocks[block_id]
    match kind:
        case "pop":
            got = pool.pop_free_block()
            owners[got.block_id] = 1
            named.discard(got.block_id)
            return f"pop_free_block() returns block {got.block_id}"
        case "touch":
            owners[block_id] += 1
            return f"touch(block {block_id}) returns {pool.touch(block)!r}"
        case "release":
            owners[block_id] -= 1
            pool.release(block)
            return f"release(block {block_id})"
        case "cache":
            named.add(block_id)
            pool.cache_block(block, bytes([name]) * 32, None)
            return f"cache_block(block {block_id})"
    call = f"release(block {block_id}), which has no owner,"
    try:
        pool.release(block)
    except BlockPoolError:
        return f"{call} raises an error"
    return f"{call} is accepted"
