"""Only blocks that were computed before this step may be registered."""

from minivllm.core import scheduler as engine
from minivllm.core.scheduler_output import ScheduledSequence
from minivllm.events import types as ev

HINT = (
    "In each layer, all keys and values of a step are written before any are read. May the next"
    " sequence in this step's plan share these blocks?"
)


class Scheduler(engine.Scheduler):
    def _commit(self, item: ScheduledSequence) -> None:
        sequence = item.sequence
        end = item.start + item.num_tokens
        if item.num_tokens == 1 and item.start >= sequence.num_prompt_tokens:
            item.kind = "decode"
        if self._bus.active:
            self._bus.emit(
                ev.StepScheduled, sequence.seq_id, item.num_tokens, item.kind, item.start
            )
        sequence.num_computed_tokens = end
        self.kv_cache_manager.cache_full_blocks(sequence, item.start)
        if end == sequence.num_tokens:
            item.sampling.append(sequence)
            if sequence.request.num_unforked and not sequence.request.params.use_beam_search:
                item.sampling += [self.fork(sequence) for _ in range(sequence.request.num_unforked)]
