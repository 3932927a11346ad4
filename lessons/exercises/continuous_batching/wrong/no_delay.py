"""A request that may join joins at once."""

from minivllm.core import admission as engine
from minivllm.core.admission import Hold, RequestQueue
from minivllm.core.request import Sequence

HINT = "What is `_batch_delay` for? It is 0 if there is none."


class AdmissionPolicy(engine.AdmissionPolicy):
    def _hold_newcomer(
        self, waiting: RequestQueue, running: list[Sequence], nothing_scheduled: bool, now: float
    ) -> Hold | None:
        if self._batching != "continuous" and running and not nothing_scheduled:
            return Hold("static_batch", len(running), 0)
        newcomers = [waiting.peek()] if self._batching == "sequential" else waiting
        self._let_in = {sequence.request.arrival_number for sequence in newcomers}
        return None
