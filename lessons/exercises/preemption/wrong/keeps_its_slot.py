"""The batch slot belongs to the victim until it ends."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import Sequence

HINT = (
    "There are only max_num_seqs slots. Which sequence could use this one while the victim waits?"
)


class Scheduler(engine.Scheduler):
    def _preempt(self, victim: Sequence, victim_of: Sequence, shortage: Shortage) -> None:
        slots = self.slots
        self.slots = _DoesNotRelease()
        super()._preempt(victim, victim_of, shortage)
        self.slots = slots


class _DoesNotRelease:
    def release(self, sequence: Sequence) -> None:
        """The slot stays taken."""
