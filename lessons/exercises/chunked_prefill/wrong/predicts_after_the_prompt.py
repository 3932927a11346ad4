"""A sequence predicts as soon as its prompt is computed."""

from minivllm.core import scheduler as engine
from minivllm.core.scheduler_output import ScheduledSequence
from minivllm.events import types as ev

HINT = (
    "After a preemption the prompt is computed again, and after it the tokens generated so far."
    " Which token is the last known one?"
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
        if sequence.num_computed_tokens >= sequence.num_prompt_tokens:
            item.sampling.append(sequence)
