"""The batch has one result: all requests get the same token."""

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallOutput, sample

HINT = "The model returns a row for each request. Which row belongs to the second one?"


class SmallEngine(RightEngine):
    def step(self) -> list[SmallOutput]:
        batch = self.schedule()
        if not batch:
            return []
        outputs = []
        for work, row in zip(batch, self.model.execute(batch), strict=True):
            request, token_id = work.request, sample(row)
            token_id = first = sample(row) if not outputs else outputs[0].token_id
            request.num_computed_tokens += work.num_tokens
            request.output.append(first)
            outputs.append(SmallOutput(request.name, token_id, request.is_finished))
        self.running = [request for request in self.running if not request.is_finished]
        return outputs
