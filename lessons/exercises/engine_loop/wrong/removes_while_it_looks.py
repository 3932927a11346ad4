"""A finished request can be removed from the list while a loop runs over it."""

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallOutput, sample

HINT = (
    "Two neighbours are finished. After the first is removed, which one does the loop look at next?"
)


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
            outputs.append(SmallOutput(request.name, token_id, request.is_finished))
        for request in self.running:
            if request.is_finished:
                self.running.remove(request)
        return outputs
