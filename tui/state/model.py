"""`DashboardModel`: all that the panels draw, and no drawing.

The heart is `minivllm.events.fold.Fold`; around it stand the few things that only a view wants to
know: which letter stands for whom, the last steps, the lives of sequences, the last decisions
(`histories`, `letters`, `decisions`). All of it comes from events, and all of it is plain data, so
that a recording can pack a whole model into a keyframe and show any moment again (`MODELS`, the
codec). The easy thing to get wrong is to keep something outside of
`_Remembered`: it would be right while live and wrong after the first rewind.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from types import MethodType

import msgspec

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.kv_usage import PoolUse, pool_use
from minivllm.events.recording.fold_codec import FOLD
from minivllm.events.state import EngineState
from minivllm.tui.state.block_histories import BlockAge, BlockAges, Lookups
from minivllm.tui.state.decisions import TOLD_KINDS, DecisionLog
from minivllm.tui.state.histories import PastSteps, StepRecord
from minivllm.tui.state.letters import Letters
from minivllm.tui.state.lives import Life, Lives

RATE_WINDOW = 2.0
"""Seconds of engine time over which tokens per second are averaged."""
_RATE_ENTRIES = 256
"""Most steps that the average reaches back."""


_END_A_SEQUENCE = frozenset({ev.RequestFinished, ev.RequestAborted, ev.BeamPruned})
_LETTERS_CHANGE = (*_END_A_SEQUENCE, ev.BlockAllocated, ev.BlockHit, ev.RequestForked)
_MASS_CHANGES = (*_END_A_SEQUENCE, ev.RequestPreempted, ev.AttentionMass)


class _Remembered(msgspec.Struct):
    """Everything of a model but its fold."""

    letters: Letters
    log: DecisionLog
    steps: PastSteps
    lives: Lives
    lookups: Lookups
    ages: BlockAges
    mass: dict[str, list[float]] = {}
    """Of each running sequence: how much of its last token's attention fell on each block of its
    table, if told.
    """
    trace: ev.KernelTraced | None = None
    """The last x-ray of a kernel."""
    rate: list[tuple[float, int]] = []
    """(time, output tokens so far) at the ends of the last steps."""

    @classmethod
    def nothing(cls, num_blocks: int) -> "_Remembered":
        return cls(
            Letters(),
            DecisionLog(),
            PastSteps(),
            Lives(),
            Lookups(),
            BlockAges([None] * num_blocks),
        )

    def keep_letters(self, event: ev.Event) -> None:
        if type(event) in _END_A_SEQUENCE:
            self.letters.release(event.seq_id)
        else:
            # A sequence takes its first blocks just before it is told to be admitted.
            self.letters.assign(event.seq_id)

    def keep_mass(self, event: ev.Event) -> None:
        if type(event) is ev.AttentionMass:
            self.mass[event.seq_id] = event.mass
        else:
            self.mass.pop(event.seq_id, None)

    def keep_trace(self, event: ev.KernelTraced) -> None:
        self.trace = event

    def tell(self, event: ev.Event) -> None:
        owner = self.ages.owner_told_by(event)
        self.log.add(event, owner, self.letters.of(owner))


class DashboardModel:
    """Reads events in order with `apply`. Panels read the rest and change nothing."""

    def __init__(
        self, header: ev.LogHeader, fold: Fold | None = None, remembered: _Remembered | None = None
    ) -> None:
        self.header = header
        self.fold = fold or Fold(header)
        self.remembered = remembered or _Remembered.nothing(header.num_blocks)
        self.letters = self.remembered.letters
        self.log = self.remembered.log
        self.steps = self.remembered.steps
        self.lives = self.remembered.lives
        self.lookups = self.remembered.lookups
        self.ages = self.remembered.ages
        self.mass = self.remembered.mass
        self._rate = self.remembered.rate
        self._listeners = self._listeners_by_kind()

    def apply(self, event: ev.Event) -> None:
        """Take in the next event."""
        kind = type(event)
        if self.fold.lost_events == 0:
            for listener in self._listeners[kind]:
                listener(event)
        elif kind is ev.Gap:
            self.log.add(event, None, None)
        self.fold.apply(event)
        if kind is ev.StepEnd:
            self._note_rate(event.t)

    def _listeners_by_kind(self) -> dict[type[ev.Event], list[Callable[[ev.Event], None]]]:
        """Who must hear of each kind, in order: letters before the log that names them, blocks
        before their owner is asked.

        Nobody of them knows this model. It would be in a ring, so that each seek left a whole model
        to the garbage collector.
        """
        listeners: dict[type[ev.Event], list[Callable[[ev.Event], None]]] = {
            kind: [] for kind in ev.EVENT_KINDS
        }
        for kinds, listener in (
            (_LETTERS_CHANGE, self.remembered.keep_letters),
            (_MASS_CHANGES, self.remembered.keep_mass),
            ((ev.KernelTraced,), self.remembered.keep_trace),
            (self.ages.APPLY, self.ages),
            ((ev.StepScheduled,), partial(_touch_written, self.fold, self.ages)),
            (TOLD_KINDS, self.remembered.tell),
            (self.steps.APPLY, self.steps),
            (self.lives.APPLY, self.lives),
            (self.lookups.APPLY, self.lookups),
        ):
            for kind in kinds:
                # Of a part straight the method for this kind: half of indexing a log is such calls.
                own = listener if callable(listener) else MethodType(listener.APPLY[kind], listener)
                listeners[kind].append(own)
        return listeners

    # ---- what the panels ask ----

    @property
    def trace(self) -> ev.KernelTraced | None:
        """The last x-ray of a kernel."""
        return self.remembered.trace

    @property
    def changed(self) -> set[int]:
        """Blocks that the current step has touched: written into, taken, found, copied, given back
        or evicted.
        """
        return self.ages.changed

    @property
    def max_num_seqs(self) -> int:
        """Batch slots now: live where the fold knows it, else those that the engine was built
        with.
        """
        return self.fold.max_num_seqs

    def letter(self, seq_id: str | None) -> str | None:
        return self.letters.of(seq_id)

    def hue(self, letter: str | None) -> str:
        """The style name of a letter's colour."""
        return self.letters.hue(letter)

    def last_owner_letter(self, block_id: int) -> str | None:
        """The letter of the sequence that held a free block last, while it still stands for that
        one.
        """
        return self.letters.of(self.ages.last_owner(block_id))

    def owners(self, block_id: int) -> list[tuple[str, int]]:
        """Every sequence that holds a block, and at which entry of its block table."""
        return [
            (seq_id, sequence.block_table.index(block_id))
            for seq_id, sequence in self.fold.sequences.items()
            if block_id in sequence.block_table
        ]

    def num_tokens_planned(self, seq_id: str) -> int:
        """Tokens that a sequence had when the step was planned: one that the step has sampled since
        is not its work.
        """
        life = self.lives.by_sequence.get(seq_id)
        is_new = life is not None and life.last_token_step == self.fold.step
        return self.fold.sequences[seq_id].num_tokens - is_new

    def pool_use(self) -> PoolUse:
        return pool_use(self.fold)

    def tokens_per_second(self) -> float | None:
        """Output tokens per second of engine time lately; None before two steps have ended."""
        if len(self._rate) < 2 or self._rate[-1][0] <= self._rate[0][0]:
            return None
        (t0, tokens0), (t1, tokens1) = self._rate[0], self._rate[-1]
        return (tokens1 - tokens0) / (t1 - t0)

    def tokens_per_step(self) -> float | None:
        """Output tokens per step lately; None before two steps have ended."""
        if len(self._rate) < 2:
            return None
        return (self._rate[-1][1] - self._rate[0][1]) / (len(self._rate) - 1)

    def hit_rate(self) -> float | None:
        """Part of all looked-up prompt tokens that the prefix cache had; None before the first
        lookup.
        """
        counters = self.fold.counters
        if counters.prefix_cache_queries == 0:
            return None
        return counters.prefix_cache_hits / counters.prefix_cache_queries

    def _note_rate(self, t: float) -> None:
        self._rate.append((t, self.fold.counters.generation_tokens))
        # Two entries always stay: a step may take longer than the window.
        while len(self._rate) > 2 and (
            t - self._rate[0][0] > RATE_WINDOW or len(self._rate) > _RATE_ENTRIES
        ):
            del self._rate[0]


def _touch_written(fold: Fold, ages: BlockAges, event: ev.StepScheduled) -> None:
    """Keys and values of the scheduled tokens go into the blocks of their positions; a cached token
    is never written again.
    """
    sequence, size = fold.sequences[event.seq_id], fold.header.block_size
    start, stop = (
        max(event.num_computed_tokens, sequence.num_cached_tokens),
        event.num_computed_tokens + event.num_tokens,
    )
    if start < stop:
        ages.write(sequence.block_table[start // size : -(-stop // size)], event.step)


class _Head(msgspec.Struct):
    """First piece of a packed model: what is small or changes all the time."""

    remembered: _Remembered
    """Without what has pieces of its own."""
    num_steps: int
    num_lives: int
    num_ages: int


class ModelCodec:
    """How a recording makes, packs and restores models: a `ViewCodec`
    (`minivllm.events.recording.keyframes`).

    Past steps, lives and ages of blocks have pieces of their own, because most of them do not
    change from one keyframe to the next.
    """

    def new(self, header: ev.LogHeader, state: EngineState | None) -> DashboardModel:
        """`state`: where the recording begins, if that is not an idle engine."""
        return DashboardModel(header, Fold(header, state))

    def pack(self, model: DashboardModel) -> list[bytes]:
        """Everything that `model` knows; `restore` brings it back."""
        all_of_it = model.remembered
        steps, lives, ages = (
            all_of_it.steps.records,
            all_of_it.lives.by_sequence,
            all_of_it.ages.blocks,
        )
        replace, encode = msgspec.structs.replace, msgspec.msgpack.encode
        small = replace(
            all_of_it,
            steps=replace(all_of_it.steps, records=[]),
            lives=replace(all_of_it.lives, by_sequence={}),
            ages=replace(all_of_it.ages, blocks=[]),
        )
        age_pieces = [
            encode(ages[at : at + _AGES_PER_PIECE]) for at in range(0, len(ages), _AGES_PER_PIECE)
        ]
        pieces = [encode(_Head(small, len(steps), len(lives), len(age_pieces)))]
        pieces += map(encode, steps)
        pieces += map(encode, lives.values())
        return [*pieces, *age_pieces, *FOLD.pack(model.fold)]

    def restore(self, header: ev.LogHeader, pieces: Sequence[bytes]) -> DashboardModel:
        """A new model, as it was when `pack` packed it."""
        rest = iter(pieces)
        head = _HEAD_DECODER.decode(next(rest))
        remembered = head.remembered
        remembered.steps.records = [
            _STEP_DECODER.decode(piece) for piece in islice(rest, head.num_steps)
        ]
        lives = [_LIFE_DECODER.decode(piece) for piece in islice(rest, head.num_lives)]
        remembered.lives.by_sequence = {life.seq_id: life for life in lives}
        for piece in islice(rest, head.num_ages):
            remembered.ages.blocks += _AGES_DECODER.decode(piece)
        return DashboardModel(header, FOLD.restore(header, list(rest)), remembered)


_AGES_PER_PIECE = 16
_HEAD_DECODER = msgspec.msgpack.Decoder(_Head)
_STEP_DECODER = msgspec.msgpack.Decoder(StepRecord)
_LIFE_DECODER = msgspec.msgpack.Decoder(Life)
_AGES_DECODER = msgspec.msgpack.Decoder(list[BlockAge | None])

MODELS = ModelCodec()
"""The codec of every recording that the dashboard opens."""
