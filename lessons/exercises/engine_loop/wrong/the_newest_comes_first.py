"""The request that came last is admitted first."""

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallWork

HINT = "`list.pop()` takes the last element. Who has waited longest?"


class SmallEngine(RightEngine):
    def schedule(self) -> list[SmallWork]:
        while self.waiting and len(self.running) < self.max_num_seqs:
            self.running.append(self.waiting.pop())
        return super().schedule()
