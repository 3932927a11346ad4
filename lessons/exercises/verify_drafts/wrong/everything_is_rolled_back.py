"""The step is undone: all drafts are computed again if they are needed."""

from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.scheduler_output import ScheduledDrafts

HINT = (
    "The keys and values of accepted drafts are right, and they are in the cache. Why"
    " compute them twice?"
)


def roll_back(item: ScheduledDrafts, num_accepted: int, manager: KVCacheManager) -> None:
    sequence = item.sequence
    item.num_accepted = num_accepted
    sequence.num_computed_tokens -= len(item.draft_token_ids)
    manager.shrink(sequence, item.start + 1 + num_accepted)
