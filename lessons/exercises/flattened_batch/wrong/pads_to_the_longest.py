"""All sequences get as many rows as the longest one."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = "Which row would the empty places have, and what would the model compute for them?"


def flat_token_ids(chunks: Seq[ScheduledChunk]) -> list[int]:
    longest = max(one.num_tokens for one in chunks)
    rows = []
    for one in chunks:
        end = one.num_computed_tokens + one.num_tokens
        own = list(one.token_ids[one.num_computed_tokens : end])
        rows += own + [0] * (longest - len(own))
    return rows
