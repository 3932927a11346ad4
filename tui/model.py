"""`DashboardModel`: all that the panels draw, and no drawing.

The heart is `minivllm.events.fold.Fold`; around it stand the few things that only a view wants to know: which letter
stands for whom, the last steps, the lives of sequences, the last decisions (`histories`, `letters`, `decisions`).
All of it comes from events, and all of it is plain data, so that a recording can pack a whole model into a keyframe
and show any moment again (`MODELS`, the codec). The easy thing to get wrong is to keep something outside of
`_Remembered`: it would be right while live and wrong after the first rewind.
"""

from typing import NamedTuple

import msgspec

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.keyframe import pack, restore
from minivllm.events.state import EngineState
from minivllm.tui.decisions import DecisionLog
from minivllm.tui.histories import BlockAges, Lookups, StepHistory
from minivllm.tui.letters import Letters
from minivllm.tui.lives import Lives

RATE_WINDOW = 2.0
"""Seconds of engine time over which tokens per second are averaged."""
_RATE_ENTRIES = 256
"""Most steps that the average reaches back."""


class PoolUse(NamedTuple):
    """How many blocks are in which condition."""

    used: int
    cached: int
    """Free, but still a hit for a prompt that begins like it."""
    empty: int


class _Remembered(msgspec.Struct):
    """Everything of a model but its fold."""

    letters: Letters
    log: DecisionLog
    steps: StepHistory
    lives: Lives
    lookups: Lookups
    ages: BlockAges
    mass: dict[str, list[float]]
    """Of each running sequence: how much of its last token's attention fell on each block of its table, if told."""
    rate: list[tuple[float, int]]
    """(time, output tokens so far) at the ends of the last steps."""

    @classmethod
    def nothing(cls) -> "_Remembered":
        return cls(Letters(), DecisionLog(), StepHistory(), Lives(), Lookups(), BlockAges(), {}, [])


class DashboardModel:
    """Reads events in order with `apply`. Panels read the rest and change nothing."""

    def __init__(self, header: ev.LogHeader, fold: Fold | None = None, remembered: _Remembered | None = None) -> None:
        self.header = header
        self.fold = fold or Fold(header)
        self._remembered = remembered or _Remembered.nothing()
        self.letters = self._remembered.letters
        self.log = self._remembered.log
        self.steps = self._remembered.steps
        self.lives = self._remembered.lives
        self.lookups = self._remembered.lookups
        self.ages = self._remembered.ages
        self.mass = self._remembered.mass
        self._rate = self._remembered.rate
        parts = (self.steps, self.lives, self.lookups)
        self._parts = {kind: [part.apply for part in parts if kind in part.KINDS] for kind in ev.EVENT_KINDS}

    def apply(self, event: ev.Event) -> None:
        """Take in the next event."""
        if self.fold.lost_events == 0:
            self._remember(event)
        elif type(event) is ev.Gap:
            self.log.add(event, None, None)
        self.fold.apply(event)
        if type(event) is ev.StepEnd:
            self._note_rate(event.t)

    def _remember(self, event: ev.Event) -> None:
        match event:
            case ev.RequestFinished() | ev.RequestAborted() | ev.BeamPruned():
                self.letters.release(event.seq_id)
                self.mass.pop(event.seq_id, None)
            case ev.BlockAllocated() | ev.BlockHit() | ev.RequestForked():
                # A sequence takes its first blocks just before it is told to be admitted.
                self.letters.assign(event.seq_id)
            case ev.AttentionMass():
                self.mass[event.seq_id] = event.mass
        kind = type(event)
        owner = self.ages.apply(event) if kind in BlockAges.KINDS else getattr(event, "seq_id", None)
        self.log.add(event, owner, self.letters.of(owner))
        for apply in self._parts[kind]:
            apply(event)

    # ---- what the panels ask ----

    @property
    def changed(self) -> set[int]:
        """Blocks that an event of the current step has touched."""
        return self.ages.changed

    @property
    def max_num_seqs(self) -> int:
        """Batch slots now: live where the fold knows it, else those that the engine was built with."""
        return getattr(self.fold, "max_num_seqs", self.header.max_num_seqs)

    def letter(self, seq_id: str | None) -> str | None:
        return self.letters.of(seq_id)

    def last_owner_letter(self, block_id: int) -> str | None:
        """The letter of the sequence that held a free block last, while it still stands for that one."""
        return self.letters.of(self.ages.last_owner.get(block_id))

    def owners(self, block_id: int) -> list[tuple[str, int]]:
        """Every sequence that holds a block, and at which entry of its block table."""
        return [
            (seq_id, sequence.block_table.index(block_id))
            for seq_id, sequence in self.fold.sequences.items()
            if block_id in sequence.block_table
        ]

    def pool_use(self) -> PoolUse:
        blocks, num_free = self.fold.blocks, len(self.fold.free_queue)
        cached = sum(blocks[block_id].hash is not None for block_id in self.fold.free_queue)
        return PoolUse(len(blocks) - num_free, cached, num_free - cached)

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
        while len(self._rate) > 2 and (t - self._rate[0][0] > RATE_WINDOW or len(self._rate) > _RATE_ENTRIES):
            del self._rate[0]


class _Packed(msgspec.Struct):
    fold: bytes
    remembered: _Remembered


class ModelCodec:
    """How a recording makes, packs and restores models (`minivllm.events` calls it a view codec)."""

    def __init__(self) -> None:
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(_Packed).decode

    def new(self, header: ev.LogHeader, state: EngineState | None = None) -> DashboardModel:
        """`state`: where the recording begins, if that is not an idle engine."""
        return DashboardModel(header, Fold(header, state))

    def pack(self, model: DashboardModel) -> bytes:
        return self._encode(_Packed(pack(model.fold), model._remembered))

    def restore(self, header: ev.LogHeader, packed: bytes) -> DashboardModel:
        frame = self._decode(packed)
        return DashboardModel(header, restore(header, frame.fold), frame.remembered)
