"""`Drafter`: puts drafts into what a plan leaves of its budget, for speculative decoding."""

from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import ScheduledDrafts, SchedulerOutput


class Drafter:
    """The default, which puts no drafts into any plan; `SpeculativeDrafter` does."""

    def add_drafts(self, plan: SchedulerOutput, budget: int) -> int:
        """Add drafts to decodes of `plan`, at most `budget` tokens; return the unused budget.

        Called once for each plan, after all other decisions. First forgets the preempted sequences.
        """
        return budget

    def settle(self, item: ScheduledDrafts, num_accepted: int, token_id: int) -> None:
        """See `Scheduler.settle_draft`."""

    def forget(self, sequence: Sequence) -> None:
        """Drop what is kept for a sequence that has ended, or that waits after a preemption."""


NO_DRAFTS = Drafter()
