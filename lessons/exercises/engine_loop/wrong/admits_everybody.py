"""All who wait are admitted."""

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallWork

HINT = "How many requests run now, and what is `max_num_seqs`?"


class SmallEngine(RightEngine):
    def schedule(self) -> list[SmallWork]:
        self.running += self.waiting
        self.waiting = []
        return super().schedule()
