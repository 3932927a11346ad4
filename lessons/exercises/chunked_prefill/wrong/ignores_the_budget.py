"""A prompt goes through the model in one piece, so it gets all the tokens that it lacks."""

from minivllm.core import scheduler as engine
from minivllm.core.request import Sequence

HINT = (
    "A prompt of 100,000 tokens is admitted, and the step has 7 tokens left. Which requests wait"
    " for that step to end?"
)


class Scheduler(engine.Scheduler):
    def _first_chunk(self, sequence: Sequence, start: int, budget: int) -> int:
        return sequence.num_tokens - start
