"""A step computes one token of each request."""

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallWork

HINT = "A prompt is known at once. How many of its tokens can go through the model in one step?"


class SmallEngine(RightEngine):
    def schedule(self) -> list[SmallWork]:
        return [SmallWork(work.request, 1) for work in super().schedule()]
