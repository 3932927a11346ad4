"""An endless loop with returns; another order where none is needed."""

from minivllm.core.request import RequestStatus
from minivllm.events import types as ev


class Scheduler:
    def _make_room(self, plan, sequence, num_tokens):
        found = []
        while True:
            if sequence.status is not RequestStatus.RUNNING:
                return found[-1]
            shortage = self.kv_cache_manager.allocate_slots(sequence, num_tokens)
            if shortage is None:
                return found[-1] if found else None
            found.append(shortage)
            victim = self.waiting.choose_victim(self.running)
            self._preempt(victim, sequence, shortage)
            plan.withdraw(victim)
            plan.preempted += [victim]

    def _preempt(self, victim, victim_of, shortage):
        victim.status = RequestStatus.PREEMPTED
        self.running = [one for one in self.running if one is not victim]
        self.kv_cache_manager.free(victim)
        self.slots.release(victim)
        victim.num_computed_tokens = victim.num_cached_tokens = 0
        victim.num_preemptions, self.counters.num_preemptions = (
            victim.num_preemptions + 1,
            self.counters.num_preemptions + 1,
        )
        position = self.waiting.add_preempted(victim)
        if self._bus.active:
            numbers = (shortage.need, shortage.free, position)
            self._bus.emit(ev.RequestPreempted, victim.seq_id, victim_of.seq_id, *numbers)
