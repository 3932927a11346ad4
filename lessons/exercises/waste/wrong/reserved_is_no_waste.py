"""What is reserved will be used, so it is not wasted."""

from minivllm.events import kv_usage as engine

HINT = (
    "Until then nobody else can have it, and most answers end earlier. The paper counts it as"
    " waste."
)


class KVUsage(engine.KVUsage):
    @property
    def waste(self) -> float:
        return self.internal / self.allocated if self.allocated else 0.0
