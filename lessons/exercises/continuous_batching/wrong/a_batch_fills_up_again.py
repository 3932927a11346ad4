"""When one member of a static batch has ended, the next request joins."""

from minivllm.core import admission as engine
from minivllm.core.admission import Hold, RequestQueue
from minivllm.core.request import Sequence

HINT = "A static batch runs to its end with the members that it began with. When has it ended?"


class AdmissionPolicy(engine.AdmissionPolicy):
    def _hold_newcomer(
        self, waiting: RequestQueue, running: list[Sequence], nothing_scheduled: bool, now: float
    ) -> Hold | None:
        is_full = len(running) >= len(self._let_in)
        if self._batching != "continuous" and running and is_full and not nothing_scheduled:
            return Hold("static_batch", len(running), 0)
        if self._batch_delay and len(waiting) < self._batch_size:
            oldest = min(sequence.request.arrival_time for sequence in waiting)
            if now - oldest < self._batch_delay:
                return Hold("batch_delay", self._batch_size, len(waiting))
        newcomers = [waiting.peek()] if self._batching == "sequential" else waiting
        self._let_in = {sequence.request.arrival_number for sequence in newcomers}
        return None
