"""`Drafts`: what was drafted for each sequence lately, and how much of it was right.

    drafts   mat and slept     num_accepted  2
    text     mat and purred    token_id      that of `purred`

Only sequences with drafts have an entry, so a run without speculative decoding keeps nothing.
"""

from collections.abc import Callable
from typing import ClassVar

import msgspec

from minivllm.events import types as ev
from minivllm.events.fold import Fold

SEQUENCES_KEPT = 64
DRAFTS_KEPT = 24
"""How many drafts of a sequence are kept; every keyframe contains them."""


class DrawnDraft(msgspec.Struct, array_like=True, gc=False):
    """The tokens that were drafted for one sequence in one step."""

    step: int
    position: int
    """Of the first draft, in the sequence."""
    token_ids: list[int]
    source: ev.DraftSource
    match: int | None
    match_length: int | None
    num_accepted: int | None = None
    """None before the verification."""
    token_id: int | None = None
    """The model's own token after the accepted drafts."""

    @property
    def forced(self) -> bool:
        """Whether a grammar left no other tokens."""
        return self.source == "grammar"

    @property
    def rejected(self) -> list[int]:
        """Empty before the verification."""
        return [] if self.num_accepted is None else self.token_ids[self.num_accepted :]


class SequenceDrafts(msgspec.Struct, array_like=True):
    num_verified: int = 0
    """In how many steps drafts were verified."""
    num_tokens: int = 0
    """How many drafts were verified."""
    num_accepted: int = 0
    recent: list[DrawnDraft] = []
    """Newest last."""


class Drafts(msgspec.Struct):
    by_seq: dict[str, SequenceDrafts] = {}

    def current(self, seq_id: str, step: int) -> DrawnDraft | None:
        """The draft of this step."""
        mine = self.by_seq.get(seq_id)
        last = mine.recent[-1] if mine is not None and mine.recent else None
        return last if last is not None and last.step == step else None

    def are_forced(self, seq_id: str, step: int) -> bool:
        """Whether the drafts of this step are those that a grammar forces."""
        draft = self.current(seq_id, step)
        return draft is not None and draft.forced

    def apply(self, fold: Fold, event: ev.Event) -> None:
        """fold: before the event"""
        self.APPLY[type(event)](self, fold, event)

    def _new(self, fold: Fold, event: ev.RequestArrived | ev.RequestForked) -> None:
        self.by_seq.pop(event.seq_id, None)  # of an old request with the same name

    def _proposed(self, fold: Fold, event: ev.DraftProposed) -> None:
        mine = self.by_seq.pop(event.seq_id, None) or SequenceDrafts()
        self.by_seq[event.seq_id] = mine
        if len(self.by_seq) > SEQUENCES_KEPT:
            del self.by_seq[next(iter(self.by_seq))]
        how = event.source, event.match, event.match_length
        position = fold.sequences[event.seq_id].num_tokens
        mine.recent.append(DrawnDraft(event.step, position, event.token_ids, *how))
        del mine.recent[:-DRAFTS_KEPT]

    def _verified(self, fold: Fold, event: ev.DraftVerified) -> None:
        draft = self.current(event.seq_id, event.step)
        if draft is not None:  # None if the recording begins inside the step
            draft.num_accepted, draft.token_id = event.num_accepted, event.token_id
            mine = self.by_seq[event.seq_id]
            mine.num_verified += 1
            mine.num_tokens += len(draft.token_ids)
            mine.num_accepted += event.num_accepted

    APPLY: ClassVar[dict[type[ev.Event], Callable]] = {
        ev.RequestArrived: _new,
        ev.RequestForked: _new,
        ev.DraftProposed: _proposed,
        ev.DraftVerified: _verified,
    }
