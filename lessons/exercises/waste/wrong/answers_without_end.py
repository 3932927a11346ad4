"""max_tokens alone limits the length of the answer."""

from collections.abc import Iterator

from minivllm.events import kv_usage as engine
from minivllm.events.state import SequenceState

HINT = "No sequence gets longer than max_model_len, whatever its max_tokens is."


class KVUsageMeter(engine.KVUsageMeter):
    def _slots_of(self, sequence: SequenceState) -> Iterator[engine._BlockSlots]:
        header = self.fold.header
        num_held = max(sequence.num_computed_tokens, sequence.num_cached_tokens)
        num_tokens = sequence.num_prompt_tokens + self.fold.requests[sequence.request_id].max_tokens
        num_final = num_tokens - 1
        for index, block_id in enumerate(sequence.block_table):
            before = index * header.block_size
            used = max(min(num_held - before, header.block_size), 0)
            yield engine._BlockSlots(
                block_id, used, max(min(num_final - before, header.block_size), used)
            )
