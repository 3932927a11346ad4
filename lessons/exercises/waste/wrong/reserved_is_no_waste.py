"""Reserved slots will be used, so they are not wasted."""

from minivllm.events import kv_usage as engine

HINT = (
    "Until then no other sequence can have these slots, and most answers end earlier. The paper"
    " counts them as waste."
)


class KVUsage(engine.KVUsage):
    @property
    def waste(self) -> float:
        return self.internal / self.allocated if self.allocated else 0.0
