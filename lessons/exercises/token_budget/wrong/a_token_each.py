"""A running sequence is decoding, so it lacks one token."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import RequestStatus
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput

HINT = (
    "A long prompt is also running after its first chunk. How many tokens does it lack, and how"
    " many has the step left?"
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
            num_tokens = min(sequence.num_tokens - start, 1)
            if num_tokens == 0:
                index += 1
                continue
            if shortage := self._make_room(plan, sequence, start + num_tokens):
                last_shortage = shortage
                budget = plan.budget - sum(item.num_tokens for item in scheduled)
                if sequence.status is RequestStatus.PREEMPTED:
                    index = running.index(scheduled[-1].sequence) + 1 if scheduled else 0
                    continue
                index = running.index(sequence)
            scheduled.append(ScheduledSequence(sequence, start, num_tokens))
            budget -= num_tokens
            index += 1
        return budget, last_shortage
