"""vLLM's KV events equal the content of the pool, to the token."""

import pytest
from support.engine.engine_fakes import WatchedEngine

from minivllm.core.block_math import hash_block_tokens
from minivllm.events import types as ev
from minivllm.events.vllm_kv_wire import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KVEvent,
)
from minivllm.server.feeds.kv_feed import KVEventFeed


class Collected:
    """A sink that keeps every event."""

    def __init__(self) -> None:
        self.batches: list[tuple[float, list[KVEvent]]] = []

    def publish(self, ts: float, events: list[KVEvent]) -> None:
        self.batches.append((ts, events))

    @property
    def events(self) -> list[KVEvent]:
        return [event for _, events in self.batches for event in events]


class Follower:
    """A subscriber's knowledge of the cache, from KV events alone."""

    def __init__(self) -> None:
        self.names: set[int] = set()
        self.full: dict[int, bytes] = {}
        """The full hash of each block, recomputed from its tokens."""

    def apply(self, event: KVEvent) -> None:
        match event:
            case BlockStored():
                assert self.names.isdisjoint(event.block_hashes), "stored twice"
                assert event.parent_block_hash is None or event.parent_block_hash in self.names
                self.names.update(event.block_hashes)
                assert len(event.token_ids) == event.block_size * len(event.block_hashes)
                parent = self.full.get(event.parent_block_hash)
                for i, name in enumerate(event.block_hashes):
                    parent = hash_block_tokens(parent, event.token_ids[4 * i : 4 * i + 4])
                    assert int(parent.hex()[:16], 16) == name
                    self.full[name] = parent
            case BlockRemoved():
                assert self.names.issuperset(event.block_hashes), "removed but never stored"
                self.names.difference_update(event.block_hashes)
            case AllBlocksCleared():
                self.names.clear()


def feed_of(engine: WatchedEngine, sink: object) -> KVEventFeed:
    feed = KVEventFeed(engine.engine.log_header(), sink.publish)
    engine.engine.subscribe(feed.apply)
    return feed


def busy(engine: WatchedEngine) -> None:
    """Equal prompts in one step, samples, beams, preemptions and evictions."""
    engine.add("twin-1", list(range(1, 14)), max_tokens=12)
    engine.add("twin-2", list(range(1, 14)), max_tokens=12)
    for i in range(8):
        engine.add(f"r{i}", [1, 2, 3, 4, 5, 6, 7, 8, 10 + i, 20 + i], max_tokens=9 + i)
    engine.add("samples", list(range(30, 39)), max_tokens=9, n=3)
    engine.add("beams", list(range(40, 49)), max_tokens=9, n=3, use_beam_search=True)


def engine_of(num_blocks: int = 16) -> WatchedEngine:
    return WatchedEngine(num_blocks=num_blocks, max_num_seqs=6, max_num_batched_tokens=32)


@pytest.mark.parametrize("num_blocks", [15, 40])
def test_after_every_step_a_follower_knows_the_hashes_in_the_pool_and_their_tokens(num_blocks):
    engine, sink, follower = engine_of(num_blocks), Collected(), Follower()
    feed = feed_of(engine, sink)
    busy(engine)
    engine.step()
    engine.engine.abort_request("samples")
    seen = 0
    while engine.engine.has_unfinished_requests():
        engine.step()
        for event in sink.events[seen:]:
            follower.apply(event)
        seen = len(sink.events)
        assert follower.names == {
            int(block.hash, 16) for block in engine.fold.blocks if block.hash is not None
        }
    assert len(follower.full) > 30
    assert feed._tokens == feed._tables == {}, "ended requests leave nothing behind"
    assert len(feed._holders) <= num_blocks
    kinds = {type(event) for event in engine.events}
    assert kinds >= {ev.RequestForked, ev.BlockCopied, ev.BeamPruned, ev.BlockHit}
    assert num_blocks > 20 or kinds >= {ev.RequestPreempted, ev.BlockEvicted}
