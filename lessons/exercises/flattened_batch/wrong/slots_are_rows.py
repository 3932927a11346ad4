"""Row i is written to slot i."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = "In the next step, there is a row 0 again. Whose keys and values would it overwrite?"


def flat_slot_mapping(chunks: Seq[ScheduledChunk], block_size: int) -> list[int]:
    return list(range(sum(one.num_tokens for one in chunks)))
