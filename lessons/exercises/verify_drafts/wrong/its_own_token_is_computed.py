"""The model's own token after the accepted drafts is computed, too."""

from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.scheduler_output import ScheduledDrafts

HINT = (
    "The model drew that token at the end of this step. Which step puts it through the model"
    " and writes its keys and values?"
)


def roll_back(item: ScheduledDrafts, num_accepted: int, manager: KVCacheManager) -> None:
    sequence = item.sequence
    item.num_accepted = num_accepted
    sequence.num_computed_tokens = item.start + 1 + num_accepted + 1
    manager.shrink(sequence, item.start + 1 + num_accepted)
