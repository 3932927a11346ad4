"""A free slot is enough to join any batch."""

from minivllm.core import admission as engine
from minivllm.core.admission import Hold, RequestQueue
from minivllm.core.request import Sequence

HINT = (
    "That is continuous batching. Which other value can `_batching` have, and what does it ask for?"
)


class AdmissionPolicy(engine.AdmissionPolicy):
    def _hold_newcomer(
        self, waiting: RequestQueue, running: list[Sequence], nothing_scheduled: bool, now: float
    ) -> Hold | None:
        if self._batch_delay and len(waiting) < self._batch_size:
            oldest = min(sequence.request.arrival_time for sequence in waiting)
            if now - oldest < self._batch_delay:
                return Hold("batch_delay", self._batch_size, len(waiting))
        newcomers = [waiting.peek()] if self._batching == "sequential" else waiting
        self._let_in = {sequence.request.arrival_number for sequence in newcomers}
        return None
