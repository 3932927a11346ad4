"""Blocks that were taken for drafts are all given back."""

from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.scheduler_output import ScheduledDrafts

HINT = "An accepted draft is a token of the sequence now. Where are its keys and values?"


def roll_back(item: ScheduledDrafts, num_accepted: int, manager: KVCacheManager) -> None:
    sequence = item.sequence
    item.num_accepted = num_accepted
    sequence.num_computed_tokens -= len(item.draft_token_ids) - num_accepted
    manager.shrink(sequence, item.start + 1)
