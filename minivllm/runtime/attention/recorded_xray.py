"""Recordings of the kernel x-ray, shipped with minivllm for machines without Triton.

`tools/pictures/record_kernels.py` records the decodes of lessons 17 and 18, which give the same
results on every machine. A recording matches a sample if its softmax fits the sample's queries and
keys. Without a match, the result is the first recording, marked with `of="another"`.
"""

from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec
import torch

from minivllm.runtime.step_result import DecodeSample

FILE = "recorded_xray.json"


class RecordedTrace(msgspec.Struct, omit_defaults=True):
    """The x-ray of one decode, as in the event `kernel.traced`."""

    layer: int
    num_tokens: int
    programs: list[dict[str, Any]]
    of: Literal["this", "another"] = "another"
    """Whether this is a recording of the requested decode."""


@cache
def recordings() -> tuple[RecordedTrace, ...]:
    packed = files(__package__).joinpath(FILE).read_bytes()
    return tuple(msgspec.json.decode(packed, type=list[RecordedTrace]))


def recorded_trace(sample: DecodeSample) -> RecordedTrace:
    """Return the recording of this decode if there is one, else the first recording."""
    for recording in recordings():
        if _is_of(sample, recording):
            return msgspec.structs.replace(recording, of="this")
    return recordings()[0]


def _is_of(sample: DecodeSample, recording: RecordedTrace) -> bool:
    """Whether layer, length, blocks and each query head's largest score equal the recorded ones."""
    reads = [read["block_id"] for tile in recording.programs[0]["tiles"] for read in tile["reads"]]
    ours = (sample.layer, sample.num_tokens, sample.block_ids, sample.keys.shape[2])
    # One program for each key head.
    if ours != (recording.layer, recording.num_tokens, reads, len(recording.programs)):
        return False
    keys = sample.keys.flatten(0, 1)[: sample.num_tokens].float()
    # [num_kv_heads, group, head_size]
    queries = sample.query.float().unflatten(0, (keys.shape[1], -1))
    scores = torch.einsum("hgd,thd->hgt", queries, keys) * sample.query.shape[1] ** -0.5
    recorded = torch.tensor([program["tiles"][-1]["running_max"] for program in recording.programs])
    largest = scores.amax(dim=2)
    return largest.shape == recorded.shape and torch.allclose(
        largest, recorded, rtol=1e-3, atol=1e-3
    )
