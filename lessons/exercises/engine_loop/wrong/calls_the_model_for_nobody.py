"""A step always calls the model."""

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallOutput

HINT = "The model refuses an empty batch. When is it empty?"


class SmallEngine(RightEngine):
    def step(self) -> list[SmallOutput]:
        return super().step() if self.waiting or self.running else self.model.execute([])
