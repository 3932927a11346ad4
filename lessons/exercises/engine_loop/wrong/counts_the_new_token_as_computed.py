"""The new token is computed: it has just come out of the model."""

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallOutput, sample

HINT = "The new token has been sampled. Has it been through the model? It has no key and value yet."


class SmallEngine(RightEngine):
    def step(self) -> list[SmallOutput]:
        batch = self.schedule()
        if not batch:
            return []
        outputs = []
        for work, row in zip(batch, self.model.execute(batch), strict=True):
            request, token_id = work.request, sample(row)
            request.output.append(token_id)
            request.num_computed_tokens = len(request.token_ids)
            outputs.append(SmallOutput(request.name, token_id, request.is_finished))
        self.running = [request for request in self.running if not request.is_finished]
        return outputs
