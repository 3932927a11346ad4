"""A request that is admitted goes to the front."""

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallWork

HINT = "`running` is in the order of admission. Where does the newest one belong?"


class SmallEngine(RightEngine):
    def schedule(self) -> list[SmallWork]:
        while self.waiting and len(self.running) < self.max_num_seqs:
            self.running.insert(0, self.waiting.pop(0))
        return super().schedule()
