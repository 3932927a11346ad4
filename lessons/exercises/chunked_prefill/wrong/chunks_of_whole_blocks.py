"""A chunk must end at the end of a block, because memory consists of blocks."""

from minivllm.core import scheduler as engine
from minivllm.core.request import Sequence

HINT = (
    "The next chunk can continue in the middle of a block. Why leave a part of the step's budget"
    " unused?"
)


class Scheduler(engine.Scheduler):
    def _first_chunk(self, sequence: Sequence, start: int, budget: int) -> int:
        num_tokens = super()._first_chunk(sequence, start, budget)
        size = self.kv_cache_manager.block_size
        if start + num_tokens < sequence.num_tokens and num_tokens > size:
            num_tokens -= (start + num_tokens) % size
        return num_tokens
