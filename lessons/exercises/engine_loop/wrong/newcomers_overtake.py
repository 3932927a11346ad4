"""Requests that have just arrived come first."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallOutput, SmallRequest

HINT = "Who has waited longer: the ones that arrive now, or the ones in `waiting`?"


class SmallEngine(RightEngine):
    def run(self, arrivals: Mapping[int, Seq[SmallRequest]]) -> list[list[SmallOutput]]:
        steps: list[list[SmallOutput]] = []
        while self.waiting or self.running or max(arrivals, default=0) > len(steps):
            self.waiting = [*arrivals.get(len(steps) + 1, ()), *self.waiting]
            steps.append(self.step())
        return steps
