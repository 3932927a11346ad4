"""The next step writes over rejected drafts anyway, so they may stay computed."""

from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.scheduler_output import ScheduledDrafts

HINT = (
    "The scheduler gives a sequence num_tokens - num_computed_tokens tokens. How many does"
    " it get if the rejected drafts count as computed?"
)


def roll_back(item: ScheduledDrafts, num_accepted: int, manager: KVCacheManager) -> None:
    sequence = item.sequence
    item.num_accepted = num_accepted
    manager.shrink(sequence, item.start + 1 + num_accepted)
