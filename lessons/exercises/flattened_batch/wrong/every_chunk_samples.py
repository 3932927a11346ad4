"""Each sequence of a step gets a token."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk, query_start_loc

HINT = "After the first half of a prompt, is the next token a surprise?"


def sampling_rows(chunks: Seq[ScheduledChunk]) -> list[int]:
    return [end - 1 for end in query_start_loc(chunks)[1:]]
