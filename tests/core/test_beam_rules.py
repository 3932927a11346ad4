"""The rules of beam search in a plain second version, compared on thousands of random steps."""

import random

import pytest

from minivllm.core.beam_search import BeamSearch, Candidate

EOS = frozenset({7, 8})


def told(search: BeamSearch) -> list[tuple]:
    return [
        (end.token_ids, pytest.approx(end.score), pytest.approx(end.logprob), end.ended_by_token)
        for end in search.hypotheses
    ]


class PlainSearch:
    """transformers' rules: rank all candidates together.

    The candidates that end among the best `width` become hypotheses.
    """

    def __init__(self, like: BeamSearch) -> None:
        self.like = like
        self.found: list[tuple] = []

    def advance(self, candidates: list[Candidate], outputs: dict, scores: dict) -> list[tuple]:
        like, width = self.like, self.like.width
        length = len(next(iter(outputs.values()))) + 1
        ranking = [
            (scores.get(c.beam, 0.0) + c.logprob, -number, c) for number, c in enumerate(candidates)
        ]
        ranking.sort(key=lambda row: row[:2], reverse=True)
        had_enough = like.early_stopping is True and len(self.found) == width
        going_on = []
        for rank, (total, _, candidate) in enumerate(
            ranking[: width * max(2, len(like.eos_token_ids) + 1)]
        ):
            is_end = candidate.token_id in like.eos_token_ids
            if not is_end and length < like.max_tokens:
                going_on.append((candidate.beam, candidate.token_id, total))
            elif rank < width and not had_enough:
                text = [*outputs[candidate.beam], candidate.token_id]
                self.found.append((text, total / length**like.length_penalty, total, is_end))
        self.found = sorted(self.found, key=lambda hypothesis: hypothesis[1], reverse=True)[:width]
        going_on = going_on[:width]
        return [] if self.is_over(going_on, length) else going_on

    def is_over(self, going_on: list[tuple], length: int) -> bool:
        like = self.like
        if not going_on or len(self.found) < like.width or like.early_stopping is True:
            return not going_on or len(self.found) == like.width
        longest_helps = like.early_stopping == "never" and like.length_penalty > 0
        reachable = (
            going_on[0][2] / (like.max_tokens if longest_helps else length) ** like.length_penalty
        )
        return reachable <= self.found[-1][1]


@pytest.mark.parametrize("early_stopping", [False, True, "never"])
@pytest.mark.parametrize("length_penalty", [1.0, 0.0, -1.5, 2.0])
def test_each_step_of_a_random_search_follows_the_rules(early_stopping, length_penalty):
    rng = random.Random(f"{early_stopping} {length_penalty}")
    over = {"found enough": 0, "ran to the end": 0}
    for _ in range(150):
        width, max_tokens = rng.randint(2, 4), rng.randint(1, 7)
        eos = rng.choice([EOS, frozenset({7}), frozenset()])
        search = BeamSearch(width, max_tokens, eos, length_penalty, early_stopping)
        plain = PlainSearch(search)
        outputs: dict[str, list[int]] = {"0": []}
        while not search.done:
            # Few different scores, so that many are equal; then the order of candidates decides.
            candidates = [
                Candidate(beam, token_id, -rng.randint(1, 6) / 4)
                for beam in outputs
                for token_id in rng.sample(range(20), search.num_candidates)
            ]
            expected = plain.advance(candidates, outputs, search.scores)
            chosen = search.advance(candidates, outputs)
            assert [tuple(way) for way in chosen] == expected
            assert plain.found == told(search)
            assert search.done == (expected == [])
            beams = {
                f"{way.beam}{i}": [*outputs[way.beam], way.token_id] for i, way in enumerate(chosen)
            }
            search.scores = {f"{way.beam}{i}": way.score for i, way in enumerate(chosen)}
            outputs = beams
        over["found enough" if len(search.hypotheses) == width else "ran to the end"] += 1
    assert over["found enough"] > 50
