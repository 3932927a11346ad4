"""`DashboardModel`: everything that the panels draw.

It holds a `Fold` (`minivllm.events.fold`), plus letters, past steps, the request ledger, block
histories and the last decisions. All of this is plain data made from events, so a recording can
pack a model into a keyframe and restore any moment (with the codec `MODELS`).

Keep all state in `_Remembered`: state elsewhere would be wrong after a rewind.
"""

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice, pairwise
from operator import attrgetter
from types import MethodType

import msgspec

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.kv_usage import PoolUse, pool_use
from minivllm.events.ledger import RequestLedger, RequestRecord, SequenceRecord
from minivllm.events.recording.fold_codec import FOLD
from minivllm.events.state import EngineState
from minivllm.tui.state.block_histories import BlockAge, BlockAges, Lookups
from minivllm.tui.state.branches import Branches
from minivllm.tui.state.decisions import TOLD_KINDS, DecisionLog
from minivllm.tui.state.drafts import Drafts
from minivllm.tui.state.explanations import Explanations
from minivllm.tui.state.histories import PastSteps, StepRecord
from minivllm.tui.state.letters import Letters
from minivllm.tui.state.pace import Pace

RATE_WINDOW = 2.0
"""The average of tokens per second covers this many seconds of engine time."""
SEQUENCES_KEPT = 64
"""Number of ended sequences that the ledger keeps for the panels."""


_END_A_SEQUENCE = frozenset({ev.RequestFinished, ev.RequestAborted, ev.BeamPruned})
_LETTERS_CHANGE = (*_END_A_SEQUENCE, ev.BlockAllocated, ev.BlockHit, ev.RequestForked)
_LOSE_BLOCKS = (*_END_A_SEQUENCE, ev.RequestPreempted)


class _Remembered(msgspec.Struct):
    """All state of a model except its fold."""

    ages: BlockAges
    ledger: RequestLedger
    letters: Letters = msgspec.field(default_factory=Letters)
    log: DecisionLog = msgspec.field(default_factory=DecisionLog)
    steps: PastSteps = msgspec.field(default_factory=PastSteps)
    lookups: Lookups = msgspec.field(default_factory=Lookups)
    mass: dict[str, list[float]] = {}
    """Running sequence -> share of attention on each block of its table, if recorded."""
    attention: ev.TokenAttention | None = None
    """The newest one, while its sequence runs."""
    experts: ev.ExpertsRouted | None = None
    trace: ev.KernelTraced | None = None
    explanations: Explanations = msgspec.field(default_factory=Explanations)
    drafts: Drafts = msgspec.field(default_factory=Drafts)
    branches: Branches = msgspec.field(default_factory=Branches)

    def keep_letters(self, event: ev.Event) -> None:
        if type(event) in _END_A_SEQUENCE:
            self.letters.release(event.seq_id)
        else:
            # A sequence takes its first blocks before the event that admits it.
            self.letters.assign(event.seq_id)

    def keep_mass(self, event: ev.AttentionMass) -> None:
        self.forget_attention(event)  # of an earlier step; this step's follows
        self.mass[event.seq_id] = event.mass

    def forget_attention(self, event: ev.Event) -> None:
        self.mass.pop(event.seq_id, None)
        if self.attention is not None and self.attention.seq_id == event.seq_id:
            self.attention = None

    def tell(self, event: ev.Event) -> None:
        owner = self.ages.owner_told_by(event)
        record = self.ledger.sequences.get(owner) if type(event) is ev.BlockHit else None
        variant = ".resumed" if record is not None and record.preemption is not None else ""
        if type(event) is ev.RequestPreempted and event.victim_of == event.seq_id:
            variant = ".itself"
        self.log.add(event, owner, self.letters.of(owner), variant)


class DashboardModel:
    """Takes events in order with `apply`. Panels only read it."""

    def __init__(
        self, header: ev.LogHeader, fold: Fold | None = None, remembered: _Remembered | None = None
    ) -> None:
        self.header = header
        self.pace = Pace.of(header)
        self.fold = fold or Fold(header)
        self.remembered = remembered or _Remembered(
            BlockAges([None] * header.num_blocks), RequestLedger(num_kept=SEQUENCES_KEPT)
        )
        self.letters = self.remembered.letters
        self.log = self.remembered.log
        self.steps = self.remembered.steps
        self.ledger = self.remembered.ledger
        self.lookups = self.remembered.lookups
        self.ages = self.remembered.ages
        self.mass = self.remembered.mass
        self.explanations = self.remembered.explanations
        self.drafts = self.remembered.drafts
        self.branches = self.remembered.branches
        self._listeners = self._listeners_by_kind()

    def apply(self, event: ev.Event) -> None:
        kind = type(event)
        if self.fold.lost_events == 0:
            for listener in self._listeners[kind]:
                listener(event)
        elif kind is ev.Gap:
            self.log.add(event, None, None)
        self.fold.apply(event)

    def _listeners_by_kind(self) -> dict[type[ev.Event], list[Callable[[ev.Event], None]]]:
        """The listeners of each kind, in the order in which they must be called.

        Letters and block ages come before the log, which uses both. No listener refers to this
        model: with such a reference cycle, every seek would leave a whole model to the garbage
        collector.
        """
        listeners: dict[type[ev.Event], list[Callable[[ev.Event], None]]] = {
            kind: [] for kind in ev.EVENT_KINDS
        }
        for kinds, listener in (
            (_LETTERS_CHANGE, self.remembered.keep_letters),
            ((ev.AttentionMass,), self.remembered.keep_mass),
            ((ev.TokenAttention,), partial(setattr, self.remembered, "attention")),
            (_LOSE_BLOCKS, self.remembered.forget_attention),
            ((ev.ExpertsRouted,), partial(setattr, self.remembered, "experts")),
            ((ev.KernelTraced,), partial(setattr, self.remembered, "trace")),
            ((ev.TokenExplained,), self.remembered.explanations.keep),
            ((ev.GrammarState,), self.remembered.explanations.keep_grammar),
            ((ev.RequestArrived,), self.branches.forget),
            ((ev.RequestForked,), partial(self.branches.fork, self.fold)),
            ((ev.TokenSampled, ev.TextFlushed), self.branches.extend),
            ((ev.BeamsFound,), self.branches.find),
            (_END_A_SEQUENCE, self.branches.end),
            ((ev.TokenSampled,), partial(self.remembered.explanations.keep_logprob, self.fold)),
            (self.ages.APPLY, self.ages),
            ((ev.StepScheduled,), partial(_touch_written, self.fold, self.ages)),
            ((ev.BlockHashed,), partial(_keep_tokens, self.fold, self.ages)),
            ((ev.StepEnd,), partial(_note_used_blocks, self.fold, self.steps)),
            (Drafts.APPLY, partial(self.remembered.drafts.apply, self.fold)),
            ((ev.DraftProposed,), partial(_touch_drafted, self.fold, self.ages)),
            (TOLD_KINDS, self.remembered.tell),
            (self.steps.APPLY, self.steps),
            (self.ledger.APPLY, self.ledger.apply),
            (self.lookups.APPLY, self.lookups),
        ):
            for kind in kinds:
                # Bind each listener's method here, once per kind: calling listeners is half the
                # cost of indexing.
                own = listener if callable(listener) else MethodType(listener.APPLY[kind], listener)
                listeners[kind].append(own)
        return listeners

    # ---- for the panels ----

    @property
    def attention(self) -> ev.TokenAttention | None:
        return self.remembered.attention

    @property
    def experts(self) -> ev.ExpertsRouted | None:
        """The newest one, if recorded."""
        return self.remembered.experts

    @property
    def trace(self) -> ev.KernelTraced | None:
        return self.remembered.trace

    @property
    def max_num_seqs(self) -> int:
        return self.fold.max_num_seqs

    def letter(self, seq_id: str | None) -> str | None:
        return self.letters.of(seq_id)

    def hue(self, letter: str | None) -> str:
        return self.letters.hue(letter)

    def last_owner_letter(self, block_id: int) -> str | None:
        """The letter of a free block's last owner; None if the letter was reused."""
        return self.letters.of(self.ages.last_owner(block_id))

    def owners(self, block_id: int) -> list[tuple[str, int]]:
        """(sequence, index in its block table) for every holder of a block."""
        return [
            (seq_id, sequence.block_table.index(block_id))
            for seq_id, sequence in self.fold.sequences.items()
            if block_id in sequence.block_table
        ]

    def num_written(self, block_id: int, owners: list[tuple[str, int]]) -> int:
        """How many slots of a block have a token. With a hash, all: its owner may still wait."""
        size, sequences = self.header.block_size, self.fold.sequences
        if self.fold.blocks[block_id].hash is not None:
            return size
        written = [sequences[who].num_computed_tokens - entry * size for who, entry in owners]
        return min(max([0, *written]), size)

    def num_tokens_planned(self, seq_id: str) -> int:
        """How many tokens the sequence had when the step was planned."""
        record = self.ledger.sequences.get(seq_id)
        is_new = record is not None and record.last_token_step == self.fold.step
        return self.fold.sequences[seq_id].num_tokens - is_new

    def considered(self) -> int:
        """Position of the waiting sequence that the scheduler considers.

        It passes those whose grammars are not compiled, for example; if it passes all, it is the
        first.
        """
        for position, seq_id in enumerate(self.fold.waiting):
            deferred = self.fold.sequences[seq_id].deferred
            if deferred is None or deferred[0] not in ev.PASSED_REASONS:
                return position
        return 0

    def pool_use(self) -> PoolUse:
        return pool_use(self.fold)

    def rate(self) -> float | None:
        """Recent output tokens per second, or per step of a virtual clock; None at first."""
        recent = self._recent_steps()
        if len(recent) < 2:
            return None
        first, last = recent[0], recent[-1]
        time = last.t - first.t if self.pace.is_timed else last.step - first.step
        return sum(record.num_tokens for record in recent[1:]) / time if time > 0 else None

    def is_slowed(self) -> bool:
        """Whether most of the recent steps waited longer than they took, as in the demo."""
        pairs = list(pairwise(self._recent_steps()))
        waited = [after.t - before.t > 2 * sum(after.seconds) > 0 for before, after in pairs]
        return 2 * sum(waited) > len(pairs)

    def _recent_steps(self) -> list[StepRecord]:
        """Those of the last `RATE_WINDOW`, and at least two: a step can take longer."""
        records = self.steps.records
        since = records[-1].t - RATE_WINDOW if records else 0.0
        first = bisect_left(records, since, key=attrgetter("t"))
        return records[min(first, max(len(records) - 2, 0)) :]

    def hit_rate(self) -> float | None:
        """Share of prompt tokens found in the prefix cache; None before the first lookup."""
        counters = self.fold.counters
        if counters.prefix_cache_queries == 0:
            return None
        return counters.prefix_cache_hits / counters.prefix_cache_queries


def _touch_written(fold: Fold, ages: BlockAges, event: ev.StepScheduled) -> None:
    """Mark the blocks into which the step writes keys and values; cached tokens are not written."""
    sequence, size = fold.sequences[event.seq_id], fold.header.block_size
    start = max(event.num_computed_tokens, sequence.num_cached_tokens)
    stop = event.num_computed_tokens + event.num_tokens
    if start < stop:
        ages.write(sequence.block_table[start // size : -(-stop // size)], event.step)


def _touch_drafted(fold: Fold, ages: BlockAges, event: ev.DraftProposed) -> None:
    """Mark the blocks into which the step writes drafts; events of a new block follow."""
    sequence, size = fold.sequences[event.seq_id], fold.header.block_size
    start, stop = sequence.num_computed_tokens, sequence.num_computed_tokens + len(event.token_ids)
    ages.write(sequence.block_table[start // size : -(-stop // size)], event.step)


def _keep_tokens(fold: Fold, ages: BlockAges, event: ev.BlockHashed) -> None:
    """Remember the tokens of a full block."""
    owner = event.seq_id or ages.last_scheduled
    sequence, size = fold.sequences[owner], fold.header.block_size
    first = sequence.block_table.index(event.block_id) * size
    prompt = fold.requests[sequence.request_id].prompt_token_ids
    skipped = max(first - len(prompt), 0)
    output = sequence.output_token_ids[skipped : max(first + size - len(prompt), 0)]
    ages.keep_tokens(event.block_id, prompt[first : first + size] + output)


def _note_used_blocks(fold: Fold, steps: PastSteps, event: ev.StepEnd) -> None:
    if steps.current is not None:
        steps.current.num_used_blocks = fold.header.num_usable_blocks - len(fold.free_queue)


class _Head(msgspec.Struct):
    """First piece of a packed model: the small parts, and the parts that change in every step."""

    remembered: _Remembered
    """The state without the parts that have separate pieces."""
    num_steps: int
    num_sequences: int
    num_ages: int


class ModelCodec:
    """Makes, packs and restores models: a `ViewCodec` (`minivllm.events.recording.keyframes`).

    Past steps, sequences and block ages have separate pieces: most of them do not change between
    keyframes.
    """

    def new(self, header: ev.LogHeader, state: EngineState | None) -> DashboardModel:
        """state: the engine's state at the start of the recording, if the engine was not new"""
        model = DashboardModel(header, Fold(header, state))
        held = (block.hash for block in model.fold.host_blocks if block.hash is not None)
        model.ages.host_owners.update(dict.fromkeys(held))
        return model

    def pack(self, model: DashboardModel) -> list[bytes]:
        all_of_it = model.remembered
        steps, sequences = all_of_it.steps.records, all_of_it.ledger.sequences
        ages = all_of_it.ages.blocks
        replace, encode = msgspec.structs.replace, msgspec.msgpack.encode
        small = replace(
            all_of_it,
            steps=replace(all_of_it.steps, records=[]),
            ledger=dataclasses.replace(all_of_it.ledger, sequences={}),
            ages=replace(all_of_it.ages, blocks=[]),
        )
        age_pieces = [
            encode(ages[at : at + _AGES_PER_PIECE]) for at in range(0, len(ages), _AGES_PER_PIECE)
        ]
        pieces = [encode(_Head(small, len(steps), len(sequences), len(age_pieces)))]
        pieces += map(encode, steps)
        pieces += map(encode, sequences.values())
        return [*pieces, *age_pieces, *FOLD.pack(model.fold)]

    def restore(
        self, header: ev.LogHeader, pieces: Sequence[bytes], newest: DashboardModel
    ) -> DashboardModel:
        rest = iter(pieces)
        head = _HEAD_DECODER.decode(next(rest))
        remembered = head.remembered
        remembered.steps.records = [
            _STEP_DECODER.decode(piece) for piece in islice(rest, head.num_steps)
        ]
        requests: dict[str, RequestRecord] = {}
        for piece in islice(rest, head.num_sequences):
            record = _SEQUENCE_DECODER.decode(piece)
            # The sequences of a request share one record of the request again.
            record.request = requests.setdefault(record.request.request_id, record.request)
            remembered.ledger.sequences[record.seq_id] = record
        for piece in islice(rest, head.num_ages):
            remembered.ages.blocks += _AGES_DECODER.decode(piece)
        fold = FOLD.restore(header, list(rest), newest.fold)
        return DashboardModel(header, fold, remembered)


_AGES_PER_PIECE = 16
_HEAD_DECODER = msgspec.msgpack.Decoder(_Head)
_STEP_DECODER = msgspec.msgpack.Decoder(StepRecord)
_SEQUENCE_DECODER = msgspec.msgpack.Decoder(SequenceRecord)
_AGES_DECODER = msgspec.msgpack.Decoder(list[BlockAge | None])

MODELS = ModelCodec()
"""The codec of every recording that the dashboard opens."""
