"""A prompt that does not fit is cut, whatever the options say."""

from minivllm.core import scheduler as engine
from minivllm.core.request import Sequence

HINT = (
    "With enable_chunked_prefill off a step computes a prompt whole or not at all. What says so in"
    " your code?"
)


class Scheduler(engine.Scheduler):
    def _first_chunk(self, sequence: Sequence, start: int, budget: int) -> int:
        return min(sequence.num_tokens - start, budget)
