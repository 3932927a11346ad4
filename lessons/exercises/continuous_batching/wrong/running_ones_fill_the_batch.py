"""Running sequences are company, too."""

from minivllm.core import admission as engine
from minivllm.core.admission import Hold, RequestQueue
from minivllm.core.request import Sequence

HINT = "The delay waits for others that begin in the same batch. Which list are they in?"


class AdmissionPolicy(engine.AdmissionPolicy):
    def _hold_newcomer(
        self, waiting: RequestQueue, running: list[Sequence], nothing_scheduled: bool, now: float
    ) -> Hold | None:
        if self._batching != "continuous" and running and not nothing_scheduled:
            return Hold("static_batch", len(running), 0)
        if self._batch_delay and len(waiting) + len(running) < self._batch_size:
            oldest = min(sequence.request.arrival_time for sequence in waiting)
            if now - oldest < self._batch_delay:
                return Hold("batch_delay", self._batch_size, len(waiting))
        newcomers = [waiting.peek()] if self._batching == "sequential" else waiting
        self._let_in = {sequence.request.arrival_number for sequence in newcomers}
        return None
