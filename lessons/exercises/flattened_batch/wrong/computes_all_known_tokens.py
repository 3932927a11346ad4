"""A step computes all known tokens of a sequence."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = "Ada has 6 known tokens, and 5 of them are in the cache. What is the cache for?"


def flat_token_ids(chunks: Seq[ScheduledChunk]) -> list[int]:
    return [token_id for one in chunks for token_id in one.token_ids]
