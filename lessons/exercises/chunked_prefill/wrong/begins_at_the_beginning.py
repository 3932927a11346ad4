"""An admitted sequence lacks all of its tokens."""

from minivllm.core import scheduler as engine
from minivllm.core.request import Sequence

HINT = "The prefix cache holds the tokens before start. How many tokens are left to compute?"


class Scheduler(engine.Scheduler):
    def _first_chunk(self, sequence: Sequence, start: int, budget: int) -> int:
        if not self.enable_chunked_prefill and sequence.num_tokens > budget:
            return 0
        return min(sequence.num_tokens, budget)
