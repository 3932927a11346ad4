"""The last token ends the answer, so it is not handed out."""

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallOutput, sample

HINT = "How many tokens does a request with `max_tokens=3` get, and how many did you return?"


class SmallEngine(RightEngine):
    def step(self) -> list[SmallOutput]:
        batch = self.schedule()
        if not batch:
            return []
        outputs = []
        for work, row in zip(batch, self.model.execute(batch), strict=True):
            request, token_id = work.request, sample(row)
            request.num_computed_tokens += work.num_tokens
            request.output.append(token_id)
            if not request.is_finished:
                outputs.append(SmallOutput(request.name, token_id, False))
        self.running = [request for request in self.running if not request.is_finished]
        return outputs
