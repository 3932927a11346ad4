"""Waste is the part of the whole cache that is not used."""

from minivllm.events import kv_usage as engine

HINT = (
    "An empty cache wastes nothing, and free blocks are there for the next request. Of which slots"
    " is waste a part?"
)


class KVUsage(engine.KVUsage):
    @property
    def waste(self) -> float:
        return (self.reserved + self.internal) / self.total
