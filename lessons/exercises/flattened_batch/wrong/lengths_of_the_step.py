"""A sequence is as long as its part of the step."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = "A decode has one token in this step. Does attention read only one key?"


def seq_lens(chunks: Seq[ScheduledChunk]) -> list[int]:
    return [one.num_tokens for one in chunks]
