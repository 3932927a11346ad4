"""Each step counts positions from 0."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = (
    "Ada decodes her tenth token. If its position is 0, where does the model think it is in"
    " her text?"
)


def flat_positions(chunks: Seq[ScheduledChunk]) -> list[int]:
    return [number for one in chunks for number in range(one.num_tokens)]
