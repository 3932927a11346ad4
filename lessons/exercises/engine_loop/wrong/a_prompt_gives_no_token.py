"""The step of the prompt only fills the cache; the first token comes in the next step."""

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallOutput, sample

HINT = "After the last token of the prompt, the model predicts a token. Why throw it away?"


class SmallEngine(RightEngine):
    def step(self) -> list[SmallOutput]:
        batch = self.schedule()
        if not batch:
            return []
        outputs = []
        for work, row in zip(batch, self.model.execute(batch), strict=True):
            request, token_id = work.request, sample(row)
            request.num_computed_tokens += work.num_tokens
            if work.num_tokens > 1:
                request.num_computed_tokens -= 1
                continue
            request.output.append(token_id)
            outputs.append(SmallOutput(request.name, token_id, request.is_finished))
        self.running = [request for request in self.running if not request.is_finished]
        return outputs
