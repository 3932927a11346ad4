"""A step without requests is no step."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallOutput, SmallRequest

HINT = "Steps count time here: a request that arrives before step 5 cannot start in step 3."


class SmallEngine(RightEngine):
    def run(self, arrivals: Mapping[int, Seq[SmallRequest]]) -> list[list[SmallOutput]]:
        steps: list[list[SmallOutput]] = []
        for _, requests in sorted(arrivals.items()):
            self.waiting += requests
            following = [step for step in arrivals if step > _]
            while (self.waiting or self.running) and (
                not following or len(steps) < min(following) - 1
            ):
                steps.append(self.step())
        return steps
