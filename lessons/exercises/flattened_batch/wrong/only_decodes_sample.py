"""Only a decode samples a token; a prompt is read first."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk, query_start_loc

HINT = "When a prompt has been computed to its end, what does its last row predict?"


def sampling_rows(chunks: Seq[ScheduledChunk]) -> list[int]:
    ends = query_start_loc(chunks)[1:]
    return [
        end - 1
        for one, end in zip(chunks, ends, strict=True)
        if one.num_computed_tokens == len(one.token_ids) - 1
    ]
