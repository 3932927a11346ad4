"""`SchedulerOutput`: the plan of one step, handed from the scheduler to the model runner.

A plan refers to the sequences themselves, which the runner may read but not change (vLLM sends
plans between processes, as differences). It is valid only until the next plan is made.

Source: vLLM `vllm/v1/core/sched/output.py`.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from minivllm.core.request import Sequence
from minivllm.events.types import ScheduledKind


class BlockCopy(NamedTuple):
    src: int
    dst: int


@dataclass(slots=True)
class ScheduledSequence:
    """Tokens [start, start + num_tokens) of one sequence, to be computed in this step."""

    sequence: Sequence
    start: int
    """How many of its tokens are computed before this step, those of prefix hits included."""
    num_tokens: int
    starts_fresh: bool = False
    """The sequence is admitted or resumed in this step, so old state in its batch slot is stale."""

    kind: ScheduledKind = "prefill"
    """For views and the kernel tracer; and only a decode gets drafts."""

    sampling: list[Sequence] = field(default_factory=list)
    """The sequences that get a new token after this chunk has run.

        []              the chunk ends before the last known token
        [self]          the usual case
        [self, forks]   the end of a prompt with several samples
    """
    # Class variables cost nothing in a step without drafts.
    draft_token_ids: ClassVar[Seq[int]] = ()
    num_accepted: ClassVar[int | None] = None


@dataclass(slots=True)
class ScheduledDrafts(ScheduledSequence):
    """A decode with guesses for the tokens after the last known one."""

    draft_token_ids: Seq[int] = ()
    """The guesses. `num_tokens` counts them."""
    num_accepted: int | None = None
    """How many were right; None if they are not verified yet."""


class DraftedSequence:
    """A sequence as it will be if its first drafts turn out to be right, as the sampler reads it.

        row 0   after the last known token    the sequence itself
        row 1   after the first draft         DraftedSequence with 1 draft

    Position, penalties and `min_tokens` of a row count its drafts as output. So each row draws the
    token that it would draw without drafts. It is equal to its sequence, so that both are watched.
    """

    def __init__(self, sequence: Sequence, drafts: Seq[int]) -> None:
        self._sequence, self._drafts = sequence, drafts
        self.request, self.index, self.seq_id = sequence.request, sequence.index, sequence.seq_id
        self.num_tokens = sequence.num_tokens + len(drafts)
        self.num_output_tokens = sequence.num_output_tokens + len(drafts)

    @property
    def token_ids(self) -> list[int]:
        return [*self._sequence.token_ids, *self._drafts]

    @property
    def output_token_ids(self) -> list[int]:
        return [*self._sequence.output_token_ids, *self._drafts]

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._sequence

    def __hash__(self) -> int:
        return hash(self._sequence)


@dataclass(slots=True)
class SchedulerOutput:
    """The plan of one step: running sequences first, then newly admitted sequences."""

    step: int
    budget: int
    """Maximum number of tokens that the step may compute."""
    scheduled: list[ScheduledSequence] = field(default_factory=list)
    total_num_scheduled_tokens: int = 0
    preempted: list[Sequence] = field(default_factory=list)
    copies: list[BlockCopy] = field(default_factory=list)
    """Block copies to make before the step writes. All sources are read before any write."""
    num_draft_tokens: int = 0

    def sampling_sequences(self) -> list[Sequence]:
        """Return the sequences that get a token in this step, in the order of the logits' rows.

        A sequence with drafts has more rows: one `DraftedSequence` after each draft.
        """
        if not self.num_draft_tokens:
            return [sequence for item in self.scheduled for sequence in item.sampling]
        rows: list[Sequence | DraftedSequence] = []
        for item in self.scheduled:
            rows += item.sampling
            sequence, drafts = item.sequence, item.draft_token_ids
            rows += [DraftedSequence(sequence, drafts[:end]) for end in range(1, len(drafts) + 1)]
        return rows

    def withdraw(self, sequence: Sequence) -> None:
        """Take a sequence out of the plan, if it is in it."""
        self.scheduled[:] = [item for item in self.scheduled if item.sequence is not sequence]


class Drafter:
    """Puts drafts into what a plan leaves of its budget. This default puts none into any plan."""

    def add_drafts(self, plan: SchedulerOutput, budget: int) -> int:
        """Add drafts to decodes of `plan`, at most `budget` tokens; return the unused budget."""
        return budget

    def settle(self, item: ScheduledDrafts, num_accepted: int, token_id: int) -> None:
        """See `Scheduler.settle_draft`."""

    def forget(self, sequence: Sequence) -> None:
        """Drop what is kept for a sequence that has ended, or that waits after a preemption."""


NO_DRAFTS = Drafter()
