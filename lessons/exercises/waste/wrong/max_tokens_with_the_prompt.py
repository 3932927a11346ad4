"""max_tokens limits the length of prompt and answer together."""

from collections.abc import Iterator

from minivllm.events import kv_usage as engine
from minivllm.events.state import SequenceState

HINT = "max_tokens counts the answer only. Where do you count the prompt?"


class KVUsageMeter(engine.KVUsageMeter):
    def _slots_of(self, sequence: SequenceState) -> Iterator[engine._BlockSlots]:
        header = self.fold.header
        num_held = max(sequence.num_computed_tokens, sequence.num_cached_tokens)
        num_tokens = self.fold.requests[sequence.request_id].max_tokens
        num_final = min(num_tokens, header.max_model_len) - 1
        for index, block_id in enumerate(sequence.block_table):
            before = index * header.block_size
            used = max(min(num_held - before, header.block_size), 0)
            yield engine._BlockSlots(
                block_id, used, max(min(num_final - before, header.block_size), used)
            )
