"""Only the tokens that the sequence has computed itself use slots."""

from collections.abc import Iterator

from msgspec import structs

from minivllm.events import kv_usage as engine
from minivllm.events.state import SequenceState

HINT = (
    "The prefix cache gave it eight tokens, and it has computed three itself. Do the eight need no"
    " slots?"
)


class KVUsageMeter(engine.KVUsageMeter):
    def _slots_of(self, sequence: SequenceState) -> Iterator[engine._BlockSlots]:
        return super()._slots_of(structs.replace(sequence, num_cached_tokens=0))
