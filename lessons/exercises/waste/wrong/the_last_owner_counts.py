"""A block's slots are those of the last sequence that names it."""

from minivllm.events import kv_usage as engine

HINT = (
    "Two samples share a block; one wants more of it than the other. The order in which they stand"
    " must not matter."
)


class KVUsageMeter(engine.KVUsageMeter):
    def _tally(self, entries: list[engine._BlockSlots]) -> engine._Tally:
        return super()._tally(list({one.block_id: one for one in entries}.values()))
