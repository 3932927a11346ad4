"""A sequence that asked for room always gets it."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import RequestStatus
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput

HINT = (
    "_make_room may have preempted the very sequence that you called it for. Where would its keys"
    " and values be written?"
)


class Scheduler(engine.Scheduler):
    def _schedule_running(self, plan: SchedulerOutput) -> tuple[int, Shortage | None]:
        budget = plan.budget
        last_shortage = None
        running, scheduled = self.running, plan.scheduled
        index = 0
        while index < len(running) and budget > 0:
            sequence = running[index]
            start = sequence.num_computed_tokens
            num_tokens = min(sequence.num_tokens - start, budget)
            if num_tokens == 0:
                index += 1
                continue
            if shortage := self._make_room(plan, sequence, start + num_tokens):
                last_shortage = shortage
                budget = plan.budget - sum(item.num_tokens for item in scheduled)
                if sequence.status is RequestStatus.PREEMPTED:
                    index = sum(item.sequence in running for item in scheduled)
                else:
                    index = running.index(sequence)
            scheduled.append(ScheduledSequence(sequence, start, num_tokens))
            budget -= num_tokens
            index += 1
        return budget, last_shortage
