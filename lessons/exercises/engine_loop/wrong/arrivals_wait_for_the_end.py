"""Requests that arrive during a run are queued when nobody runs any more."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallOutput, SmallRequest

HINT = "A request can be queued while others run. What does it wait for here?"


class SmallEngine(RightEngine):
    def run(self, arrivals: Mapping[int, Seq[SmallRequest]]) -> list[list[SmallOutput]]:
        steps: list[list[SmallOutput]] = []
        late: list[SmallRequest] = []
        while late or self.waiting or self.running or max(arrivals, default=0) > len(steps):
            late += arrivals.get(len(steps) + 1, ())
            if not self.running:
                self.waiting, late = self.waiting + late, []
            steps.append(self.step())
        return steps
