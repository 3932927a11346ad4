"""Events of speculative decoding: what is drafted for a sequence, and how much of it was right."""

from typing import ClassVar, Literal

from minivllm.events.types.envelope import Event

DraftSource = Literal["ngram", "draft_model", "grammar"]


class DraftProposed(Event, tag="draft.proposed"):
    """A decode computes drafts besides its own token, from the next position on.

    Comes after `step.scheduled` of the sequence, whose share of the budget grows by the drafts.
    Events just after it show a new block, if the drafts need one.
    """

    seq_id: str
    token_ids: list[int]
    """The drafts, in order."""
    source: DraftSource
    """Who proposed: a lookup in the sequence's own tokens, a draft model, or a grammar that leaves
    no choice.
    """
    match: int | None = None
    """`ngram`: position of the first token of the earlier occurrence. The drafts followed it."""
    match_length: int | None = None
    """`ngram`: how many of the sequence's last tokens were found there."""
    rule: ClassVar[str] = "minivllm.speculation.drafter:SpeculativeDrafter._add_draft"


class DraftVerified(Event, tag="draft.verified"):
    """The model's own tokens were drawn, and drafts were kept up to the first difference.

    The keys and values of the other drafts do not count any more. Events just after it show a block
    that is given back. The accepted tokens and `token_id` follow as `token.sampled`, unless one of
    them ends the sequence.
    """

    seq_id: str
    num_accepted: int
    """How many drafts equal the model's own tokens, from the first on."""
    token_id: int
    """The model's own token after the accepted drafts: the first that differs from its draft, or
    one more token if all drafts were right.
    """
    rule: ClassVar[str] = "minivllm.speculation.drafter:SpeculativeDrafter.settle"
