"""All known tokens are in the cache after the step."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = (
    "Cleo has 8 known tokens and 6 of them are computed. What would attention read in the"
    " slots of the other two?"
)


def seq_lens(chunks: Seq[ScheduledChunk]) -> list[int]:
    return [len(one.token_ids) for one in chunks]
