"""An admitted sequence lacks only the tokens of its prompt."""

from minivllm.core import scheduler as engine
from minivllm.core.request import Sequence

HINT = (
    "A preempted sequence comes back with tokens that it has generated. Their keys and values are"
    " gone too."
)


class Scheduler(engine.Scheduler):
    def _first_chunk(self, sequence: Sequence, start: int, budget: int) -> int:
        num_missing = max(sequence.num_prompt_tokens - start, 1)
        return (
            min(num_missing, budget) if self.enable_chunked_prefill or num_missing <= budget else 0
        )
