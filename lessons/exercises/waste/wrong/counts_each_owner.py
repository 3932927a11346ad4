"""Each sequence counts all slots of its own table."""

from minivllm.events import kv_usage as engine

HINT = (
    "A block with three owners is one block in memory. Count it once. Then all slots add up to the"
    " blocks in use."
)


class KVUsageMeter(engine.KVUsageMeter):
    def _tally(self, entries: list[engine._BlockSlots]) -> engine._Tally:
        num_used = sum(one.used for one in entries)
        num_wanted = sum(one.wanted for one in entries)
        return engine._Tally(
            num_used, num_wanted - num_used, len(entries) * self.fold.header.block_size - num_wanted
        )
