"""`DraftLengths`: how many tokens to draft for each sequence, from what came of its last drafts.

A draft that is rejected costs work: its row goes through the model for nothing. A few rows cost
nearly nothing if weights are large, because the step must read all of them anyway. Further rows
cost time (SmolLM2 on a CPU with float32 weights, time of a step over one row's):

    rows     1    5    9   16   32   80
    time   1.0  1.1  1.1  1.6  2.5  5.0

Weights in Q4_1 are read in a third of the time and computed no faster, so rows cost sooner: 2.0
times for 5 rows, 4.2 times for 16 (two cores of an AMD EPYC).

So the j-th draft is computed only if all j drafts are probably right: with a probability of at
least `LIKELY` if the step has many rows already, else of `POSSIBLE`. The probability is the j-th
power of the share of the sequence's drafts that were right lately. The first draft is always tried.

A sequence whose drafts fail at once several times in a row pauses, for longer each time, and then
tries one draft. Only past steps of the sequence count, and no time is measured, so a run on the
virtual clock can be reproduced.
"""

from dataclasses import dataclass

from minivllm.core.request import Sequence

CHEAP_ROWS = 12
"""Rows of a step that cost little, even with small weights."""
LIKELY = 0.5
POSSIBLE = 0.3
FAILURES_BEFORE_A_PAUSE = 2
LONGEST_PAUSE = 64
"""Steps without drafts, at most."""
_MEMORY = 0.8
"""Weight of the past when a draft is verified: about the last five drafts count."""


@dataclass(slots=True)
class _Record:
    num_right: float = 2.0
    num_tried: float = 2.5
    """Drafts up to the first wrong one. Both are sums over past steps, old ones with less weight;
    at the start, four of five drafts count as right.
    """
    num_failures: int = 0
    """Drafts rejected at their first token, in a row."""
    resumes_at: int = 0
    """No drafts before this step."""


class DraftLengths:
    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._records: dict[Sequence, _Record] = {}

    def wanted(self, sequence: Sequence, step: int, num_rows: int) -> int:
        """Return how many tokens to draft for `sequence` in this step; 0 while it pauses.

        num_rows: tokens that the step computes without these drafts
        """
        record = self._records.get(sequence) or _Record()
        if step < record.resumes_at:
            return 0
        length, rate = 0, record.num_right / record.num_tried
        probability = rate
        while length < self._longest and probability >= (
            POSSIBLE if num_rows + length < CHEAP_ROWS else LIKELY
        ):
            length += 1
            probability *= rate
        return max(length, 1)  # with no try, it would never learn that drafts are right again

    def verified(self, sequence: Sequence, step: int, num_drafts: int, num_accepted: int) -> None:
        """Learn from a verified draft."""
        record = self._records.setdefault(sequence, _Record())
        record.num_right = _MEMORY * record.num_right + num_accepted
        record.num_tried = _MEMORY * record.num_tried + min(num_accepted + 1, num_drafts)
        if num_accepted:
            record.num_failures = 0
            return
        record.num_failures += 1
        if record.num_failures >= FAILURES_BEFORE_A_PAUSE:
            record.resumes_at = step + 1 + min(2**record.num_failures, LONGEST_PAUSE)

    def forget(self, sequence: Sequence) -> None:
        self._records.pop(sequence, None)
