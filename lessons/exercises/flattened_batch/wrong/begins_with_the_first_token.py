"""The tokens of a step are the first ones of the sequence."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = "The first chunk of the prompt was computed in an earlier step. Which tokens come next?"


def flat_token_ids(chunks: Seq[ScheduledChunk]) -> list[int]:
    return [token_id for one in chunks for token_id in one.token_ids[: one.num_tokens]]
