"""A prompt that does not fit is split, whatever the options say."""

from minivllm.core import scheduler as engine
from minivllm.core.request import Sequence

HINT = (
    "If enable_chunked_prefill is off, a step computes a prompt completely or not at all. Where"
    " does your code check this?"
)


class Scheduler(engine.Scheduler):
    def _first_chunk(self, sequence: Sequence, start: int, budget: int) -> int:
        return min(sequence.num_tokens - start, budget)
