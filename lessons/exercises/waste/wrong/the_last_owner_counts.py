"""A shared block counts with the slots of the last sequence in the list."""

from minivllm.events import kv_usage as engine

HINT = (
    "Two samples share a block, and one wants more of it than the other. Their order must not"
    " matter."
)


class KVUsageMeter(engine.KVUsageMeter):
    def _tally(self, entries: list[engine._BlockSlots]) -> engine._Tally:
        return super()._tally(list({one.block_id: one for one in entries}.values()))
