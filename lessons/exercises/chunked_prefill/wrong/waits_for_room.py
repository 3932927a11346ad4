"""A prompt that is longer than the rest of the budget waits for a step where it fits."""

from minivllm.core import scheduler as engine
from minivllm.core.request import Sequence

HINT = (
    "Your long prompt waits until all of it fits into one step. When is that, if it is longer than"
    " the budget?"
)


class Scheduler(engine.Scheduler):
    def _first_chunk(self, sequence: Sequence, start: int, budget: int) -> int:
        num_missing = sequence.num_tokens - start
        return num_missing if num_missing <= budget else 0
