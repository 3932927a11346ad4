"""All tokens of a sequence in the plan are computed in this step."""

from minivllm.core import scheduler as engine
from minivllm.core.scheduler_output import ScheduledSequence
from minivllm.events import types as ev

HINT = (
    "Only one chunk of the sequence is in the plan. Where does the next chunk begin if all tokens"
    " count as computed?"
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
        sequence.num_computed_tokens = sequence.num_tokens
        if item.start + item.num_tokens == sequence.num_tokens:
            item.sampling.append(sequence)
