"""The position of a token is its row."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = (
    "Ben asks alone, and then together with Ada. Has the first word of his prompt moved in his"
    " text?"
)


def flat_positions(chunks: Seq[ScheduledChunk]) -> list[int]:
    return list(range(sum(one.num_tokens for one in chunks)))
