"""The block will be needed soon, so the sequence keeps it."""

from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.scheduler_output import ScheduledDrafts

HINT = (
    "Other requests may wait for this block. What does the block hold that is needed in the"
    " next step?"
)


def roll_back(item: ScheduledDrafts, num_accepted: int, manager: KVCacheManager) -> None:
    sequence = item.sequence
    item.num_accepted = num_accepted
    sequence.num_computed_tokens -= len(item.draft_token_ids) - num_accepted
