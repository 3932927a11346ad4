"""`Drafter`: adds drafts to a plan, from what the plan leaves of the step's budget.

The scheduler calls it once in each step, after all other decisions. `NoDrafts` is the default;
`minivllm/speculation/drafter.py` has the one that drafts.
"""

from typing import Protocol

from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import ScheduledDrafts, SchedulerOutput


class Drafter(Protocol):
    def add_drafts(self, plan: SchedulerOutput, budget: int, manager: KVCacheManager) -> int:
        """Add drafts to decodes of `plan`, at most `budget` tokens; return the unused budget.

        First forgets the sequences that this plan preempted.
        """

    def settle(
        self, item: ScheduledDrafts, num_accepted: int, token_id: int, manager: KVCacheManager
    ) -> None:
        """See `Scheduler.settle_draft`. Called in the step of `add_drafts`."""

    def forget(self, sequence: Sequence) -> None:
        """Drop what is kept for a sequence that has ended, or that waits after a preemption."""


class NoDrafts:
    """The `Drafter` of a scheduler without speculative decoding."""

    def add_drafts(self, plan: SchedulerOutput, budget: int, manager: KVCacheManager) -> int:
        return budget

    def settle(self, *verified: object) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...


NO_DRAFTS = NoDrafts()
