"""A hold counts the requests that wait."""

from minivllm.core import admission as engine
from minivllm.core.admission import Hold, RequestQueue
from minivllm.core.request import Sequence

HINT = "The reason is the running batch. How many sequences are in it?"


class AdmissionPolicy(engine.AdmissionPolicy):
    def _hold_newcomer(
        self, waiting: RequestQueue, running: list[Sequence], nothing_scheduled: bool, now: float
    ) -> Hold | None:
        if self._batching != "continuous" and running and not nothing_scheduled:
            return Hold("static_batch", len(waiting), 0)
        if self._batch_delay and len(waiting) < self._batch_size:
            oldest = min(sequence.request.arrival_time for sequence in waiting)
            if now - oldest < self._batch_delay:
                return Hold("batch_delay", self._batch_size, len(waiting))
        newcomers = [waiting.peek()] if self._batching == "sequential" else waiting
        self._let_in = {sequence.request.arrival_number for sequence in newcomers}
        return None
