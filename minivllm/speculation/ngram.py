"""`NgramProposer`: prompt lookup. What followed the last tokens before, will follow again.

    position   0   1   2   3   4   5   6   7
    tokens    the cat sat .   and the cat      last two: `the cat`, found at 0
    draft                                 sat .

It takes the longest run of last tokens that occurred before, up to `prompt_lookup_max` and at least
`prompt_lookup_min` tokens long. Of several occurrences, it takes the first. It costs no model, and
helps where an answer repeats its prompt: rewriting, extracting, code.

Source: vLLM `vllm/v1/spec_decode/ngram_proposer.py`;
https://github.com/apoorvumang/prompt-lookup-decoding
"""

from array import array
from collections.abc import Sequence as Seq
from typing import NamedTuple

from minivllm.core.request import Sequence
from minivllm.speculation.base import Draft, Wanted


class Match(NamedTuple):
    """An earlier occurrence of the last tokens."""

    start: int
    length: int


class NgramProposer:
    def __init__(self, longest: int, shortest: int) -> None:
        self._longest = longest
        self._shortest = shortest
        self._texts: dict[Sequence, array] = {}

    def propose(self, wanted: Seq[Wanted]) -> list[Draft]:
        """See `Proposer.propose`."""
        return [self._propose(*one) for one in wanted]

    def forget(self, sequence: Sequence) -> None:
        """See `Proposer.forget`."""
        self._texts.pop(sequence, None)

    def _propose(self, sequence: Sequence, num_tokens: int) -> Draft:
        text = self._texts.setdefault(sequence, array("I"))
        text.extend(sequence.token_ids[len(text) :])
        match = find_match(text, self._longest, self._shortest)
        if match is None:
            return Draft([], "ngram")
        end = match.start + match.length
        return Draft(text[end : end + num_tokens].tolist(), "ngram", *match)


def find_match(text: array, longest: int, shortest: int) -> Match | None:
    """Find the longest run of last tokens that occurred before, and its first occurrence.

    longest, shortest: limits of the length

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
            return Match(at // size, length)
    return None
