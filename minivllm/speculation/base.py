"""`Proposer`: guesses the next tokens of a sequence.

A step of the model can verify several guesses at once, because it reads all weights anyway, and on
small batches reading the weights takes most of the time:

    known tokens     the cat sat on the        drafts     mat and slept
    one step         computes `the mat and slept`, and draws a token after each
    the draws        mat and purred .
    final            mat and purred            (2 drafts accepted, 1 token of the model's own)

A draw depends only on the seed, the sequence, the position and the tokens before it. So a draft is
accepted exactly if it is the token that the engine would have drawn without drafts, and the output
is the same, token for token, at every temperature.

Source: Leviathan et al., https://arxiv.org/abs/2211.17192; names from vLLM `vllm/v1/spec_decode/`.
"""

from collections.abc import Sequence as Seq
from typing import NamedTuple, Protocol

from minivllm.core.request import Sequence
from minivllm.events.types import DraftSource


class Wanted(NamedTuple):
    """A sequence that can verify up to `num_tokens` drafts in this step."""

    sequence: Sequence
    num_tokens: int


class Draft(NamedTuple):
    """Guesses for the next tokens of a sequence; possibly none."""

    token_ids: list[int]
    source: DraftSource
    match: int | None = None
    """Position of the earlier occurrence of the last tokens, for a lookup."""
    match_length: int | None = None


class Proposer(Protocol):
    def propose(self, wanted: Seq[Wanted]) -> list[Draft]:
        """Return a draft for each wanted sequence, of at most the wanted length."""

    def forget(self, sequence: Sequence) -> None:
        """Drop everything kept for a sequence, which has ended or was preempted."""
