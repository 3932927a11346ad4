"""The caller knows how many drafts were accepted, so nothing is noted."""

from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.scheduler_output import ScheduledDrafts

HINT = (
    "The dashboard reads the plan of the step after it has run. Where does it find how many"
    " drafts were right?"
)


def roll_back(item: ScheduledDrafts, num_accepted: int, manager: KVCacheManager) -> None:
    sequence = item.sequence
    sequence.num_computed_tokens -= len(item.draft_token_ids) - num_accepted
    manager.shrink(sequence, sequence.num_computed_tokens)
