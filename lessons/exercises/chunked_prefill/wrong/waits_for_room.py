"""A prompt that does not fit into what is left of a step waits for a step in which it does."""

from minivllm.core import scheduler as engine
from minivllm.core.request import Sequence

HINT = (
    "Your long prompt waits until the step has room for all of it. When is that, if it is longer"
    " than the budget of any step?"
)


class Scheduler(engine.Scheduler):
    def _first_chunk(self, sequence: Sequence, start: int, budget: int) -> int:
        num_missing = sequence.num_tokens - start
        return num_missing if num_missing <= budget else 0
