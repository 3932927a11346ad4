"""`KVEventFeed`: derives vLLM's KV events from ours and publishes them once per step.

KV events tell external routers and caches which hashed blocks the prefix cache gains and loses, and
the tokens of these blocks. Our block events have no tokens, so the feed keeps each sequence's
tokens and block table.

Two blocks can have the same hash (two equal prompts in one step), and vLLM reports both. We report
a hash as stored with its first block and as removed with its last, so a reader can keep a set.

Source: vLLM `vllm/v1/core/block_pool.py`, `vllm/distributed/kv_events.py`.
"""

from collections import Counter
from collections.abc import Callable

from minivllm.events import types as ev
from minivllm.events.vllm_kv_wire import AllBlocksCleared, BlockRemoved, BlockStored, KVEvent

MEDIUM = "GPU"
"""vLLM's word for the engine's own KV cache (as opposed to offloaded blocks), on a CPU too."""


Publish = Callable[[float, list[KVEvent]], None]
"""Publishes a batch with its Unix time. Called in the engine's thread, so it must not block."""


class KVEventFeed:
    """Call `engine.subscribe(feed.apply)` before the first request: the feed assumes an idle engine
    with an empty cache.
    """

    def __init__(self, header: ev.LogHeader, publish: Publish) -> None:
        self._block_size = header.block_size
        self._unix_minus_engine = header.wall - header.mono
        self._publish = publish
        self._tokens: dict[str, list[int]] = {}
        self._tables: dict[str, list[int]] = {}
        self._scheduled = ""
        """The sequence that was scheduled last; the next `BlockHashed` events belong to it."""
        self._holders: Counter[str] = Counter()
        """Number of blocks that carry each hash."""
        self._batch: list[KVEvent] = []
        # Subscribers that know an earlier engine's blocks must learn that these are gone.
        publish(header.wall, [AllBlocksCleared()])

    def apply(self, event: ev.Event) -> None:
        """Called in the engine's thread."""
        handler = _APPLY.get(type(event))
        if handler is not None:
            handler(self, event)

    # ---- tokens ----

    def _arrived(self, event: ev.RequestArrived) -> None:
        self._tokens[event.seq_id] = list(event.prompt_token_ids)
        self._tables[event.seq_id] = []

    def _forked(self, event: ev.RequestForked) -> None:
        self._tokens[event.seq_id] = list(self._tokens[event.parent])
        self._tables[event.seq_id] = list(self._tables[event.parent])

    def _sampled(self, event: ev.TokenSampled) -> None:
        self._tokens[event.seq_id].append(event.token_id)

    def _ended(self, event: ev.RequestFinished | ev.RequestAborted | ev.BeamPruned) -> None:
        del self._tokens[event.seq_id], self._tables[event.seq_id]

    # ---- block tables ----

    def _extended(self, event: ev.BlockAllocated | ev.BlockHit) -> None:
        self._tables[event.seq_id].append(event.block_id)

    def _copied(self, event: ev.BlockCopied) -> None:
        self._tables[event.seq_id][event.logical] = event.dst

    def _released(self, event: ev.BlockReleased) -> None:
        self._tables[event.seq_id].pop()

    # ---- names ----

    def _was_scheduled(self, event: ev.StepScheduled) -> None:
        self._scheduled = event.seq_id

    def _hashed(self, event: ev.BlockHashed) -> None:
        self._holders[event.hash] += 1
        if self._holders[event.hash] > 1:
            return
        name, parent = _name(event.hash), None if event.parent is None else _name(event.parent)
        start = self._tables[self._scheduled].index(event.block_id) * self._block_size
        tokens = self._tokens[self._scheduled][start : start + self._block_size]
        last = self._batch[-1] if self._batch else None
        if isinstance(last, BlockStored) and last.block_hashes[-1] == parent:
            last.block_hashes.append(name)
            last.token_ids += tokens
        else:
            self._batch.append(BlockStored([name], parent, tokens, self._block_size, medium=MEDIUM))

    def _evicted(self, event: ev.BlockEvicted) -> None:
        self._holders[event.hash] -= 1
        if self._holders[event.hash] == 0:
            del self._holders[event.hash]
            self._batch.append(BlockRemoved([_name(event.hash)], medium=MEDIUM))

    def _step_end(self, event: ev.StepEnd) -> None:
        if self._batch:
            batch, self._batch = self._batch, []
            self._publish(self._unix_minus_engine + event.t, batch)


def _name(short_hash: str) -> int:
    """Return the hash of an event (64 bits in hex digits) as a number, which is vLLM's format."""
    return int(short_hash, 16)


_APPLY: dict[type[ev.Event], Callable[[KVEventFeed, ev.Event], None]] = {
    ev.RequestArrived: KVEventFeed._arrived,
    ev.RequestForked: KVEventFeed._forked,
    ev.TokenSampled: KVEventFeed._sampled,
    **dict.fromkeys((ev.RequestFinished, ev.RequestAborted, ev.BeamPruned), KVEventFeed._ended),
    **dict.fromkeys((ev.BlockAllocated, ev.BlockHit), KVEventFeed._extended),
    ev.BlockCopied: KVEventFeed._copied,
    ev.BlockReleased: KVEventFeed._released,
    ev.StepScheduled: KVEventFeed._was_scheduled,
    ev.BlockHashed: KVEventFeed._hashed,
    ev.BlockEvicted: KVEventFeed._evicted,
    ev.StepEnd: KVEventFeed._step_end,
}
