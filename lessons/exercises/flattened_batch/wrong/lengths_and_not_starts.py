"""query_start_loc has the number of rows of each sequence."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = (
    "Where does the third sequence begin? You must add up, and an attention kernel has no time to."
)


def query_start_loc(chunks: Seq[ScheduledChunk]) -> list[int]:
    return [0, *(one.num_tokens for one in chunks)]
