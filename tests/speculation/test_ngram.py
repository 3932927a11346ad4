"""Prompt lookup against its obvious reference: two loops over the text."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from minivllm.core.request import Request, Sequence
from minivllm.sampling_params import SamplingParams
from minivllm.speculation.proposers import Draft, NgramProposer, Wanted, find_match

TEXTS = st.lists(st.sampled_from([0, 1, 2, 256, 65536]), min_size=1, max_size=40)
"""Few ids, so that runs repeat; some have the bytes of others at another offset."""


def first_longest_match(text: list[int], longest: int, shortest: int) -> tuple[int, int] | None:
    for length in range(longest, shortest - 1, -1):
        for start in range(len(text) - length):
            if text[start : start + length] == text[-length:]:
                return start, length
    return None


@given(TEXTS, st.integers(1, 5), st.integers(1, 5))
def test_the_bytes_find_what_two_loops_find(text: list[int], first: int, second: int) -> None:
    longest, shortest = max(first, second), min(first, second)
    expected = first_longest_match(text, longest, shortest)
    assert find_match(array("I", text), longest, shortest) == expected


def sequence(*token_ids: int) -> Sequence:
    return Sequence(Request("r", list(token_ids), SamplingParams()), 0, list(token_ids))


def test_the_draft_is_what_followed_the_first_of_the_longest_occurrences() -> None:
    proposer = NgramProposer(3, 2)
    cat = sequence(1, 2, 3, 4, 2, 3)  # vLLM's example: only [2, 3] occurred before
    assert proposer.propose([Wanted(cat, 4)]) == [Draft([4, 2, 3], "ngram", 1, 2)]
    assert proposer.propose([Wanted(cat, 1)]) == [Draft([4], "ngram", 1, 2)]
    cat.append_token(9)
    assert proposer.propose([Wanted(cat, 4)]) == [Draft([], "ngram")]


def test_nothing_is_kept_of_a_sequence_that_has_ended() -> None:
    proposer, cat = NgramProposer(2, 1), sequence(1, 2, 1)
    proposer.propose([Wanted(cat, 4)])
    proposer.forget(cat)
    assert proposer._texts == {}
