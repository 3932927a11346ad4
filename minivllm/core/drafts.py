"""`DraftedSequence`: a sequence as it will be if its first drafts turn out to be right.

With two drafts, the model computes three rows, and the sampler draws a token for each:

    row 0   after the last known token    the sequence itself
    row 1   after the first draft         DraftedSequence with 1 draft
    row 2   after the second draft        DraftedSequence with 2 drafts

Position, penalties and `min_tokens` of a row count its drafts as output. So each row draws exactly
the token that it would draw if the drafts had been sampled one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # scheduler_output.py imports this file
    from minivllm.core.request import Sequence
    from minivllm.core.scheduler_output import ScheduledSequence


class DraftedSequence:
    """What the sampler reads of a sequence. Equal to its sequence, so that both are watched."""

    __slots__ = ("_drafts", "_sequence", "index", "num_tokens", "request", "seq_id")

    def __init__(self, sequence: Sequence, drafts: list[int]) -> None:
        self._sequence = sequence
        self._drafts = drafts
        self.request, self.index, self.seq_id = sequence.request, sequence.index, sequence.seq_id
        self.num_tokens = sequence.num_tokens + len(drafts)

    @staticmethod
    def rows(item: ScheduledSequence) -> list[DraftedSequence]:
        """Return one for each draft of `item`: the rows after its own."""
        drafts = item.draft_token_ids
        return [DraftedSequence(item.sequence, drafts[:end]) for end in range(1, len(drafts) + 1)]

    @property
    def token_ids(self) -> list[int]:
        return [*self._sequence.token_ids, *self._drafts]

    @property
    def output_token_ids(self) -> list[int]:
        return [*self._sequence.output_token_ids, *self._drafts]

    @property
    def num_output_tokens(self) -> int:
        return self._sequence.num_output_tokens + len(self._drafts)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._sequence

    def __hash__(self) -> int:
        return hash(self._sequence)
