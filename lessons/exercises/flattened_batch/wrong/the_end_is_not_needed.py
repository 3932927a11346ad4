"""There is one start for each sequence, and no more."""

from collections.abc import Sequence as Seq
from itertools import accumulate

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = "The rows of a sequence end where the next one begins. Where do those of the last one end?"


def query_start_loc(chunks: Seq[ScheduledChunk]) -> list[int]:
    return [0, *accumulate(one.num_tokens for one in chunks)][:-1]
