"""Every chunk that goes through the model predicts a token."""

from minivllm.core import scheduler as engine
from minivllm.core.scheduler_output import ScheduledSequence
from minivllm.events import types as ev

HINT = (
    "After half of the prompt, the model predicts what would follow that half. Is that the first"
    " token of the answer?"
)


class Scheduler(engine.Scheduler):
    def _advance(self, item: ScheduledSequence) -> None:
        sequence = item.sequence
        if item.num_tokens == 1 and item.start >= sequence.num_prompt_tokens:
            item.kind = "decode"
        if self._bus.active:
            self._bus.emit(
                ev.StepScheduled, sequence.seq_id, item.num_tokens, item.kind, item.start
            )
        sequence.num_computed_tokens = item.start + item.num_tokens
        item.sampling.append(sequence)
