"""The first token has position 1."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = "In the README, the first token of ben has position 0."


def flat_positions(chunks: Seq[ScheduledChunk]) -> list[int]:
    return [
        one.num_computed_tokens + number + 1 for one in chunks for number in range(one.num_tokens)
    ]
