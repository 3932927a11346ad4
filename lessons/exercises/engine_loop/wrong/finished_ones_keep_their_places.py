"""A request that is finished keeps its place until the batch is over."""

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallOutput, sample

HINT = "It gets no more tokens. Who could use its place in the next step?"


class SmallEngine(RightEngine):
    def step(self) -> list[SmallOutput]:
        batch = self.schedule()
        if not batch:
            return []
        outputs = []
        for work, row in zip(batch, self.model.execute(batch), strict=True):
            request, token_id = work.request, sample(row)
            if request.is_finished:
                continue
            request.num_computed_tokens += work.num_tokens
            request.output.append(token_id)
            outputs.append(SmallOutput(request.name, token_id, request.is_finished))
        if all(request.is_finished for request in self.running):
            self.running = []
        return outputs
