"""`DraftLengths`: how many tokens to draft for each sequence, from what came of its last drafts.

A rejected draft costs work: its row goes through the model for nothing. So a sequence starts with
the largest number, halves it when a draft is rejected at once, and doubles it when all drafts are
accepted. After several failures in a row it pauses, for longer each time, and then tries again.
Only the past of the sequence itself counts, so a run on the virtual clock is reproducible.
"""

from dataclasses import dataclass

from minivllm.core.request import Sequence

FAILURES_BEFORE_A_PAUSE = 2
LONGEST_PAUSE = 64
"""Steps without drafts, at most."""


@dataclass(slots=True)
class _Record:
    length: int
    num_failures: int = 0
    """Drafts rejected at their first token, in a row."""
    resumes_at: int = 0
    """No drafts before this step."""


class DraftLengths:
    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._records: dict[Sequence, _Record] = {}

    def wanted(self, sequence: Sequence, step: int) -> int:
        """Return how many tokens to draft for `sequence` in this step; 0 while it pauses."""
        record = self._records.get(sequence)
        if record is None:
            return self._longest
        return record.length if step >= record.resumes_at else 0

    def verified(self, sequence: Sequence, step: int, num_drafts: int, num_accepted: int) -> None:
        """Learn from a verified draft."""
        record = self._records.setdefault(sequence, _Record(self._longest))
        if num_accepted == num_drafts:
            record.length = min(2 * record.length, self._longest)
        if num_accepted:
            record.num_failures = 0
            return
        record.length = max(record.length // 2, 1)
        record.num_failures += 1
        if record.num_failures >= FAILURES_BEFORE_A_PAUSE:
            record.resumes_at = step + 1 + min(2**record.num_failures, LONGEST_PAUSE)

    def forget(self, sequence: Sequence) -> None:
        self._records.pop(sequence, None)
