"""The new token is sampled from the row after the last one."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk, query_start_loc, seq_lens

HINT = (
    "The entry after a sequence is the first row of another one. Which row is the last of this one?"
)


def sampling_rows(chunks: Seq[ScheduledChunk]) -> list[int]:
    ends = query_start_loc(chunks)[1:]
    return [
        end
        for one, end, length in zip(chunks, ends, seq_lens(chunks), strict=True)
        if length == len(one.token_ids)
    ]
