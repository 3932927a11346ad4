"""An answer ends when it has `max_tokens` tokens."""

from minivllm.lessons.shown.small_engine import SmallEngine as RightEngine
from minivllm.lessons.shown.small_engine import SmallOutput, sample

HINT = "The model can end an answer early, with the end token. What does `is_finished` say then?"


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
            is_last = len(request.output) == request.max_tokens
            outputs.append(SmallOutput(request.name, token_id, is_last))
        self.running = [one for one in self.running if len(one.output) < one.max_tokens]
        return outputs
