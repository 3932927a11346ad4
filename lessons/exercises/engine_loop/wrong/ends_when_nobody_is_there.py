"""The run is over when nobody waits and nobody runs."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallOutput, SmallRequest

HINT = "Nobody is there now. Will somebody come later?"


class SmallEngine(RightEngine):
    def run(self, arrivals: Mapping[int, Seq[SmallRequest]]) -> list[list[SmallOutput]]:
        steps: list[list[SmallOutput]] = []
        self.waiting += arrivals.get(1, ())
        while self.waiting or self.running:
            steps.append(self.step())
            self.waiting += arrivals.get(len(steps) + 1, ())
        return steps
