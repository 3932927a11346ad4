"""all() for the oldest, and a loop that ends after the first."""

from minivllm.core.admission import Hold


class AdmissionPolicy:
    def _hold_newcomer(self, waiting, running, nothing_scheduled, now):
        is_busy = len(running) > 0 and not nothing_scheduled
        if is_busy and self._batching in ("static", "sequential"):
            return Hold("static_batch", len(running), 0)
        is_small = self._batch_delay > 0 and len(waiting) < self._batch_size
        if is_small and all(now - one.request.arrival_time < self._batch_delay for one in waiting):
            return Hold("batch_delay", self._batch_size, len(waiting))
        self._let_in = set()
        self._let_in.add(waiting.peek().request.arrival_number)
        if self._batching != "sequential":
            self._let_in.update(one.request.arrival_number for one in waiting)
        return None
