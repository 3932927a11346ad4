"""`DashboardModel`: all that the panels draw, and no drawing.

The heart is `minivllm.events.fold.Fold`; around it stand the few things that only a view wants to
know: which letter stands for whom, which blocks the last step touched, how fast tokens come, the
last decisions. All of it comes from events. The easy thing to get wrong is a paused view: the fold
goes on underneath, so `still` must copy what it hands out and not share it.
"""

from collections import deque
from copy import copy

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.keyframe import pack, restore
from minivllm.events.pool_use import PoolUse, pool_use
from minivllm.tui.decisions import DecisionLog
from minivllm.tui.letters import Letters

RATE_WINDOW = 2.0
"""Seconds of engine time over which tokens per second are averaged."""
USED_HISTORY = 240
"""Steps whose use of the token budget is remembered."""


class DashboardModel:
    """Reads events in order with `apply`. Panels read the rest and change nothing."""

    def __init__(self, header: ev.LogHeader) -> None:
        self.header = header
        self.fold = Fold(header)
        self.letters = Letters()
        self.log = DecisionLog()
        self.changed: set[int] = set()
        """Blocks that an event of the current step has touched."""
        self.used: deque[int] = deque(maxlen=USED_HISTORY)
        """Tokens given out in each of the last steps, oldest first."""
        self._last_owner: dict[int, str] = {}
        self._scheduled_last: str | None = None
        self._rate: deque[tuple[float, int]] = deque()

    def apply(self, event: ev.Event) -> None:
        """Take in the next event."""
        kind = type(event)
        if kind is ev.StepBegin:
            self.changed.clear()
        elif kind is ev.RequestFinished or kind is ev.RequestAborted or kind is ev.BeamPruned:
            self.letters.release(event.seq_id)
        elif kind is ev.BlockAllocated or kind is ev.BlockHit or kind is ev.RequestForked:
            # A sequence takes its first blocks just before it is told to be admitted.
            self.letters.assign(event.seq_id)
        elif kind is ev.StepScheduled:
            self._scheduled_last = event.seq_id
        owner = getattr(event, "seq_id", None)
        block_id = getattr(event, "block_id", None)
        if kind is ev.BlockCopied:
            self.changed |= {event.src, event.dst}
            self._last_owner[event.dst] = owner
        elif block_id is not None:
            self.changed.add(block_id)
            if kind is ev.BlockHashed:
                # Of several that share or shared it, the one whose tokens have just filled it.
                owner = self._scheduled_last
            if kind is ev.BlockEvicted:
                owner = self._last_owner.get(block_id)
            elif owner is not None:
                self._last_owner[block_id] = owner
        self.log.add(event, owner, self.letters.of(owner))
        self.fold.apply(event)
        if kind is ev.StepEnd:
            self.used.append(event.used)
            self._note_rate(event.t)

    def still(self) -> "DashboardModel":
        """A copy that stays as it is while this model goes on."""
        other = copy(self)
        other.fold = restore(self.header, pack(self.fold))
        other.letters = self.letters.copy()
        other.log = self.log.copy()
        other.changed, other.used, other._rate = set(self.changed), self.used.copy(), self._rate.copy()
        other._last_owner = dict(self._last_owner)
        return other

    # ---- what the panels ask ----

    def letter(self, seq_id: str | None) -> str | None:
        return self.letters.of(seq_id)

    def last_owner_letter(self, block_id: int) -> str | None:
        """The letter of the sequence that held a free block last, while it still stands for that one."""
        return self.letters.of(self._last_owner.get(block_id))

    def pool_use(self) -> PoolUse:
        return pool_use(self.fold)

    def tokens_per_second(self) -> float | None:
        """Output tokens per second of engine time lately; None before two steps have ended."""
        if len(self._rate) < 2 or self._rate[-1][0] <= self._rate[0][0]:
            return None
        (t0, tokens0), (t1, tokens1) = self._rate[0], self._rate[-1]
        return (tokens1 - tokens0) / (t1 - t0)

    def hit_rate(self) -> float | None:
        """Part of all looked-up prompt tokens that the prefix cache had; None before the first lookup."""
        counters = self.fold.counters
        if counters.prefix_cache_queries == 0:
            return None
        return counters.prefix_cache_hits / counters.prefix_cache_queries

    def _note_rate(self, t: float) -> None:
        self._rate.append((t, self.fold.counters.generation_tokens))
        # Two entries always stay: a step may take longer than the window.
        while len(self._rate) > 2 and t - self._rate[0][0] > RATE_WINDOW:
            self._rate.popleft()
