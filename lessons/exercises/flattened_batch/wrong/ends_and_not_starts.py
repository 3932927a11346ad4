"""query_start_loc has the end of each sequence."""

from collections.abc import Sequence as Seq
from itertools import accumulate

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = "In which row does the first sequence begin? Is this number in your list?"


def query_start_loc(chunks: Seq[ScheduledChunk]) -> list[int]:
    return list(accumulate(one.num_tokens for one in chunks))
