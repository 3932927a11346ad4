"""The table keeps a slot for the model's own token."""

from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.scheduler_output import ScheduledDrafts

HINT = (
    "If the accepted drafts end exactly at the end of a block, when does the model's own"
    " token need a slot?"
)


def roll_back(item: ScheduledDrafts, num_accepted: int, manager: KVCacheManager) -> None:
    sequence = item.sequence
    item.num_accepted = num_accepted
    sequence.num_computed_tokens -= len(item.draft_token_ids) - num_accepted
    manager.shrink(sequence, item.start + 1 + num_accepted + 1)
