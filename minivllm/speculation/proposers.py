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

from array import array
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


class NgramProposer:
    """Prompt lookup. What followed the last tokens before, will follow again.

        position   0   1   2   3   4   5   6   7
        tokens    the cat sat .   and the cat      last two: `the cat`, found at 0
        draft                                 sat .

    It takes the longest run of last tokens, of `prompt_lookup_min` to `prompt_lookup_max`, that
    occurred before. It helps where an answer repeats its prompt: rewriting, extracting, code.

    Source: vLLM `vllm/v1/spec_decode/ngram_proposer.py`;
    https://github.com/apoorvumang/prompt-lookup-decoding
    """

    def __init__(self, longest: int, shortest: int) -> None:
        self._longest, self._shortest = longest, shortest
        self._texts: dict[Sequence, array] = {}

    def propose(self, wanted: Seq[Wanted]) -> list[Draft]:
        """See `Proposer.propose`."""
        return [self._propose(*want) for want in wanted]

    def forget(self, sequence: Sequence) -> None:
        """See `Proposer.forget`."""
        self._texts.pop(sequence, None)

    def _propose(self, sequence: Sequence, num_tokens: int) -> Draft:
        text = self._texts.setdefault(sequence, array("I"))
        text.extend(sequence.token_ids[len(text) :])
        match = find_match(text, self._longest, self._shortest)
        if match is None:
            return Draft([], "ngram")
        end = sum(match)
        return Draft(text[end : end + num_tokens].tolist(), "ngram", *match)


def find_match(text: array, longest: int, shortest: int) -> tuple[int, int] | None:
    """Return start and length of the longest run of last tokens that occurred before.

    Searches bytes, which takes C a microsecond for a thousand tokens.
    """
    size, data = text.itemsize, text.tobytes()
    for length in range(min(longest, len(text) - 1), shortest - 1, -1):
        last_tokens = data[-length * size :]
        # An occurrence must end before the last token, so that a token follows it.
        at = data.find(last_tokens, 0, -size)
        while at > 0 and at % size:  # not at the start of a token
            at = data.find(last_tokens, at + 1, -size)
        if at >= 0:
            return at // size, length
    return None


class GrammarProposer:
    """Drafts for sequences whose output must fit a grammar.

        allowed so far    {"          the schema has one property, so the grammar forces  name":
        forced drafts     name ": "   always right: the mask leaves nothing else to draw
        other drafts      cut before the first token that the grammar refuses

    Where nothing is forced, the usual proposer drafts. Source: "jump-forward decoding",
    https://lmsys.org/blog/2024-02-05-compressed-fsm/; vLLM `update_draft_token_ids`.
    """

    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer

    def propose(self, wanted: Seq[Wanted]) -> list[Draft]:
        """See `Proposer.propose`."""
        if all(want.sequence.request.grammar is None for want in wanted):
            return self._proposer.propose(wanted)
        forced = [_forced(*want) for want in wanted]
        others = [want for want, draft in zip(wanted, forced, strict=True) if draft is None]
        drafts = iter(self._proposer.propose(others) if others else ())
        return [
            draft or _valid(want.sequence, next(drafts))
            for want, draft in zip(wanted, forced, strict=True)
        ]

    def forget(self, sequence: Sequence) -> None:
        """See `Proposer.forget`."""
        self._proposer.forget(sequence)


def _forced(sequence: Sequence, num_tokens: int) -> Draft | None:
    grammar = sequence.request.grammar
    token_ids = [] if grammar is None else grammar.forced_tokens(sequence)[:num_tokens]
    return Draft(token_ids, "grammar") if token_ids else None


def _valid(sequence: Sequence, draft: Draft) -> Draft:
    """Cut `draft` before the first token that the sequence's grammar refuses."""
    grammar = sequence.request.grammar
    if grammar is None:
        return draft
    return draft._replace(token_ids=grammar.validate_tokens(sequence, draft.token_ids))
