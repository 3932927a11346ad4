"""Every unused slot of a sequence is reserved for it."""

from collections.abc import Iterator

from minivllm.events import kv_usage as engine
from minivllm.events.state import SequenceState

HINT = "Her answer will have at most three tokens. How many slots of her run will ever be written?"


class KVUsageMeter(engine.KVUsageMeter):
    def _slots_of(self, sequence: SequenceState) -> Iterator[engine._BlockSlots]:
        header = self.fold.header
        num_held = max(sequence.num_computed_tokens, sequence.num_cached_tokens)
        for index, block_id in enumerate(sequence.block_table):
            before = index * header.block_size
            used = max(min(num_held - before, header.block_size), 0)
            yield engine._BlockSlots(block_id, used, header.block_size)
