"""`BeamSearch`: decides which beams of a request continue, which end, and when the search is over.

In each step, every live beam offers its best next tokens with their log-probabilities. The best
`width` candidates that do not end become the next beams. A parent beam forks if several next beams
continue it, and is pruned if none does. Candidates that end, by end-of-sequence or by length,
compete for `width` places of finished hypotheses, by score / length ** length_penalty.

The results equal those of `transformers.generate(num_beams=width)`, token for token:

- A candidate that ends counts only if it is among the best `width` of *all* candidates.
- More than `width` candidates are ranked, so that enough candidates continue.
- All candidates that end in one step compete, even if the first one fills the last place.

Source: transformers `generation/utils.py` (`_beam_search`). vLLM V0 searches in `sampler.py`, V1 in
`entrypoints/llm.py` (where each beam step is a new request).
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple


class Candidate(NamedTuple):
    """One possible next token of one beam."""

    beam: Hashable
    token_id: int
    logprob: float


class Continuation(NamedTuple):
    """A chosen candidate: `beam` gains `token_id` and then has `score`."""

    beam: Hashable
    token_id: int
    score: float


@dataclass(slots=True)
class Hypothesis:
    """A finished beam."""

    token_ids: list[int]
    """Output tokens, including the token that ended the beam."""
    score: float
    """`logprob` / length ** length_penalty."""
    logprob: float
    ended_by_token: bool


@dataclass(slots=True)
class BeamSearch:
    width: int
    max_tokens: int
    """A beam ends after this many output tokens, whatever its last token is."""
    eos_token_ids: frozenset[int]
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False

    scores: dict[Hashable, float] = field(default_factory=dict)
    """Log-probability of each live beam, set by the caller; 0 for a beam without an entry."""
    hypotheses: list[Hypothesis] = field(default_factory=list)
    """Finished hypotheses, best first; at most `width`."""
    done: bool = False

    @property
    def num_candidates(self) -> int:
        """How many next tokens each beam must offer."""
        return max(2, 1 + len(self.eos_token_ids)) * self.width

    def advance(
        self, candidates: list[Candidate], outputs: dict[Hashable, list[int]]
    ) -> list[Continuation]:
        """Take one step of the search.

        candidates: of all live beams, in the order of the beams
        outputs: the output tokens of each live beam so far, all of the same length

        Returns the next beams, best first, or an empty list when the search is over (`done`).
        """
        # Sorting is stable: equal scores stay in the order of the beams, then of the ranks.
        scored = [
            Continuation(beam, token_id, self.scores.get(beam, 0.0) + logprob)
            for beam, token_id, logprob in candidates
        ]
        ranked = sorted(scored, key=lambda found: -found.score)[: self.num_candidates]
        was_full = len(self.hypotheses) == self.width
        length = 1 + len(next(iter(outputs.values())))
        at_limit = length >= self.max_tokens
        going_on = []
        for rank, continuation in enumerate(ranked):
            ends = continuation.token_id in self.eos_token_ids
            if not (ends or at_limit):
                going_on.append(continuation)
            elif rank < self.width and not (was_full and self.early_stopping is True):
                self._finish(continuation, outputs[continuation.beam], ended_by_token=ends)
        going_on = going_on[: self.width]
        self.done = self._is_over(going_on, length)
        return [] if self.done else going_on

    def _finish(self, continuation: Continuation, output: list[int], ended_by_token: bool) -> None:
        token_ids = [*output, continuation.token_id]
        score = continuation.score / len(token_ids) ** self.length_penalty
        self.hypotheses.append(Hypothesis(token_ids, score, continuation.score, ended_by_token))
        self.hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
        del self.hypotheses[self.width :]

    def _is_over(self, going_on: list[Continuation], length: int) -> bool:
        if not going_on or len(self.hypotheses) < self.width:
            return not going_on
        if self.early_stopping is True:
            return True
        # The best score that the best live beam can still reach: its log-probability can only fall.
        # "never" assumes the best possible length: `max_tokens` if the penalty is positive.
        longest = self.early_stopping == "never" and self.length_penalty > 0.0
        best_length = self.max_tokens if longest else length
        best_possible = going_on[0].score / best_length**self.length_penalty
        return best_possible <= self.hypotheses[-1].score
