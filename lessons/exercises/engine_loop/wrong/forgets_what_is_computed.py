"""The model remembers what it has computed; the engine has nothing to note."""

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallOutput, sample

HINT = "What does `schedule` subtract in the next step, and who changes it?"


class SmallEngine(RightEngine):
    def step(self) -> list[SmallOutput]:
        batch = self.schedule()
        if not batch:
            return []
        outputs = []
        for work, row in zip(batch, self.model.execute(batch), strict=True):
            request, token_id = work.request, sample(row)
            request.output.append(token_id)
            outputs.append(SmallOutput(request.name, token_id, request.is_finished))
        self.running = [request for request in self.running if not request.is_finished]
        return outputs
