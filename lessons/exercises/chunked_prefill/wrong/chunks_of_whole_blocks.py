"""A chunk ends where a block ends, since blocks are what memory is made of."""

from minivllm.core import scheduler as engine
from minivllm.core.request import Sequence

HINT = (
    "The next chunk goes on in the middle of a block without trouble. Why leave a part of the"
    " step's budget unused?"
)


class Scheduler(engine.Scheduler):
    def _first_chunk(self, sequence: Sequence, start: int, budget: int) -> int:
        num_tokens = super()._first_chunk(sequence, start, budget)
        size = self.kv_cache_manager.block_size
        if start + num_tokens < sequence.num_tokens and num_tokens > size:
            num_tokens -= (start + num_tokens) % size
        return num_tokens
