"""A token is sampled from every row."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = "Row 1 predicts the second token of the prompt. Do you need a prediction of it?"


def sampling_rows(chunks: Seq[ScheduledChunk]) -> list[int]:
    return list(range(sum(one.num_tokens for one in chunks)))
