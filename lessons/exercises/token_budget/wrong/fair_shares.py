"""The budget is divided evenly among the running sequences."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import RequestStatus
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput

HINT = (
    "Ada lacks one token, and you give her a share of five. Which sequence could have used the"
    " other four?"
)


class Scheduler(engine.Scheduler):
    def _schedule_running(self, plan: SchedulerOutput) -> tuple[int, Shortage | None]:
        budget = plan.budget
        last_shortage = None
        running, scheduled = self.running, plan.scheduled
        share = max(1, budget // max(1, len(running)))
        index = 0
        while index < len(running) and budget > 0:
            sequence = running[index]
            start = sequence.num_computed_tokens
            num_tokens = min(sequence.num_tokens - start, share, budget)
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
