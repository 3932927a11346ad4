"""`Preemption`: the part of the scheduler that makes room. Who goes is the policy's choice (`policies`).

A running sequence that finds no block takes those of a victim: the policy names one, and another, until there is room.
The victim may be the very sequence that needs the block; then it has to wait, too. What a victim keeps is its tokens,
the generated ones among them. Their keys and values are computed again when it comes back, or found in the prefix
cache, where its full blocks stay until somebody else is given them.

The easy thing to get wrong: under the priority policy a victim may already have been given tokens in this very step.
It leaves the plan, or the model would write into blocks that have another owner by then.

Source: vLLM `vllm/v1/core/sched/scheduler.py` (`schedule`, `_preempt_request`).
"""

from minivllm.core.batch_slots import BatchSlots
from minivllm.core.kv_cache_manager import KVCacheManager, Shortage
from minivllm.core.request import RequestStatus, Sequence
from minivllm.core.request_queue import RequestQueue
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.events.state import Counters


class Preemption:
    """What `Scheduler` is, too; it owns all of these."""

    kv_cache_manager: KVCacheManager
    waiting: RequestQueue
    running: list[Sequence]
    slots: BatchSlots
    counters: Counters
    _bus: EventBus

    def _make_room(self, plan: SchedulerOutput, sequence: Sequence, num_tokens: int) -> Shortage | None:
        """Get blocks for the first `num_tokens` tokens of a running sequence, whoever must go; the last shortage, if any."""
        last_shortage = None
        # BEGIN SOLUTION preemption
        while sequence.status is RequestStatus.RUNNING and (
            shortage := self.kv_cache_manager.allocate_slots(sequence, num_tokens)
        ):
            last_shortage = shortage
            victim = self.waiting.choose_victim(self.running)
            plan.withdraw(victim)
            self._preempt(victim, sequence, shortage)
            plan.preempted.append(victim)
        # END SOLUTION
        return last_shortage

    def _end_standstill(self, plan: SchedulerOutput) -> None:
        """All that run are beams waiting for a preempted sibling, and who stands before it in the queue finds no room."""
        first = self.waiting.peek()
        reason, need, free = first.deferred
        if reason != "batch_delay":  # that ends by itself
            victim = self.waiting.choose_victim(self.running)
            self._preempt(victim, first, Shortage(need, free))
            plan.preempted.append(victim)

    def requeue(self, stranded: Sequence, culprit: Sequence) -> None:
        """Have a sequence computed anew: it shares blocks that `culprit` failed to write."""
        self._preempt(stranded, culprit, Shortage(0, self.kv_cache_manager.pool.num_free_blocks))

    def _preempt(self, victim: Sequence, victim_of: Sequence, shortage: Shortage) -> None:
        """Take blocks and slot from a running sequence. Its tokens stay; their keys and values are recomputed."""
        # BEGIN SOLUTION preemption
        self.kv_cache_manager.free(victim)
        self.running.remove(victim)
        self.slots.release(victim)
        victim.status = RequestStatus.PREEMPTED
        victim.num_computed_tokens = 0
        victim.num_cached_tokens = 0
        position = self.waiting.add_preempted(victim)
        # END SOLUTION
        victim.num_preemptions += 1
        self.counters.num_preemptions += 1
        if self._bus.active:
            self._bus.emit(ev.RequestPreempted, victim.seq_id, victim_of.seq_id, shortage.need, shortage.free, position)
