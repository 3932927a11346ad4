"""A step computes the last tokens of the sequence."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = "A prompt of 8 tokens is cut into chunks of 2. Which tokens does its first chunk have?"


def flat_token_ids(chunks: Seq[ScheduledChunk]) -> list[int]:
    return [token_id for one in chunks for token_id in one.token_ids[-one.num_tokens :]]
