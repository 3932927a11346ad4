"""Tokens that were computed before have rows, too."""

from collections.abc import Sequence as Seq
from itertools import accumulate

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = "How many rows has a decode of a sequence with 1,000 tokens in the cache?"


def query_start_loc(chunks: Seq[ScheduledChunk]) -> list[int]:
    return [0, *accumulate(one.num_computed_tokens + one.num_tokens for one in chunks)]
