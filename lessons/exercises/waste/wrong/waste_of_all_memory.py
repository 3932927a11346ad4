"""Waste is the unused part of the whole cache."""

from minivllm.events import kv_usage as engine

HINT = (
    "An empty cache wastes nothing, and the next request can use the free blocks. Waste is a part"
    " of which slots?"
)


class KVUsage(engine.KVUsage):
    @property
    def waste(self) -> float:
        return (self.reserved + self.internal) / self.total
