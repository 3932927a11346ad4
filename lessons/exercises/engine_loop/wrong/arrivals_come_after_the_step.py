"""Requests that arrive before a step join after it."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallOutput, SmallRequest

HINT = "A request arrives just before step 2. Can it be in the batch of step 2?"


class SmallEngine(RightEngine):
    def run(self, arrivals: Mapping[int, Seq[SmallRequest]]) -> list[list[SmallOutput]]:
        steps: list[list[SmallOutput]] = []
        while self.waiting or self.running or max(arrivals, default=0) >= len(steps):
            steps.append(self.step())
            self.waiting += arrivals.get(len(steps), ())
        return steps
