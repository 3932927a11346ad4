"""A chunk's tokens are counted one step later, when its result is there."""

from minivllm.core import scheduler as engine
from minivllm.core.scheduler_output import ScheduledSequence
from minivllm.events import types as ev

HINT = (
    "The next step is planned before that. Where would it begin? Count the tokens when the plan is"
    " final."
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
        sequence.num_computed_tokens = item.start
        if item.start + item.num_tokens == sequence.num_tokens:
            item.sampling.append(sequence)
