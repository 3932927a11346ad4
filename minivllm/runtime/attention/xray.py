"""The kernel x-ray of a real decode: trace the kernel on what one layer's attention reads.

Only interpreted kernels can be traced (`minivllm.kernels.xray`), and Triton decides at import
whether it interprets kernels. On a machine without a CUDA device it does, and the trace is made in
this process; otherwise in a new one, `python -m minivllm.runtime.attention.xray`.

Only the sequence's own blocks are copied, so the kernel sees them under new ids. The trace that is
returned has the block ids of the engine's KV cache.

Without Triton, a recording that ships with minivllm takes the place of the trace.
`tools/pictures/record_kernels.py` records the decodes of lessons 17 and 18, which give the same
results on every machine.
"""

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec
import torch
from safetensors.torch import load, save

from minivllm import kernels
from minivllm.errors import KernelTraceError
from minivllm.kernels import interprets_here
from minivllm.runtime.step_result import DecodeSample

WORKER_TIMEOUT = 120.0
"""In seconds. Importing torch and Triton takes a few seconds, and a long context some more."""


def trace_decode(sample: DecodeSample) -> list[Any]:
    """Trace the kernel version `grouped` over `sample`: `ProgramTrace`s, or dicts of their fields.

    Raises `KernelTraceError`.
    """
    try:
        return trace_here(sample) if interprets_here() else _trace_in_worker(sample)
    except KernelTraceError:
        raise
    except Exception as error:  # a failed x-ray must not stop the engine
        raise KernelTraceError(f"The kernel could not be traced: {error!r}.") from error


def trace_here(sample: DecodeSample) -> list[Any]:
    """Like `trace_decode`, for a process in which kernels are interpreted: `ProgramTrace`s."""
    block_table = torch.arange(len(sample.block_ids), dtype=torch.int32).unsqueeze(0)
    seq_lens = torch.tensor([sample.num_tokens], dtype=torch.int32)
    scale = sample.query.shape[1] ** -0.5
    query, caches = sample.query.unsqueeze(0), (sample.keys, sample.values)
    inputs = query, *caches, block_table, seq_lens, scale, None, sample.window
    traced = kernels.trace(lambda: kernels.decode_grouped(*inputs), sample.keys)
    return [_with_block_ids(program, sample.block_ids) for program in traced.programs]


def _with_block_ids(program: Any, block_ids: list[int]) -> Any:
    def renamed(tile: Any) -> Any:
        reads = (replace(read, block_id=block_ids[read.block_id]) for read in tile.reads)
        return replace(tile, reads=tuple(reads))

    return replace(program, tiles=tuple(map(renamed, program.tiles)))


def _trace_in_worker(sample: DecodeSample) -> list[dict[str, Any]]:
    numbers = torch.tensor([sample.layer, sample.num_tokens, sample.window, *sample.block_ids])
    tensors = {"query": sample.query, "keys": sample.keys, "values": sample.values}
    given = save({"numbers": numbers, **tensors})
    return msgspec.json.decode(run_interpreted("minivllm.runtime.attention.xray", given))


def run_interpreted(module: str, given: bytes) -> bytes:
    """Run `python -m module` where kernels are interpreted. Raises `KernelTraceError`."""
    # A worker that sees no device starts faster and takes no device memory.
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", module]
    try:
        worker = subprocess.run(
            command, input=given, capture_output=True, env=environment, timeout=WORKER_TIMEOUT
        )
    except subprocess.TimeoutExpired as error:
        raise KernelTraceError(
            f"Tracing the kernel took more than {WORKER_TIMEOUT:.0f} seconds and was stopped."
        ) from error
    if worker.returncode != 0:
        last_words = worker.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise KernelTraceError(f"The process that traces the kernel failed: {last_words}")
    return worker.stdout


# ---- recordings, for machines without Triton ----


class RecordedTrace(msgspec.Struct, omit_defaults=True):
    """The x-ray of one decode, as in the event `kernel.traced`."""

    layer: int
    num_tokens: int
    programs: list[dict[str, Any]]
    of: Literal["this", "another"] = "another"
    """Whether this is a recording of the requested decode."""


@cache
def recordings() -> tuple[RecordedTrace, ...]:
    packed = files(__package__).joinpath("recorded_xray.json").read_bytes()
    return tuple(msgspec.json.decode(packed, type=list[RecordedTrace]))


def recorded_trace(sample: DecodeSample) -> RecordedTrace:
    """Return the recording of this decode, if there is one, else the first recording."""
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


if __name__ == "__main__":  # the worker
    tensors = load(sys.stdin.buffer.read())
    layer, num_tokens, window, *block_ids = tensors.pop("numbers").tolist()
    traced = trace_here(DecodeSample(layer, num_tokens, block_ids, **tensors, window=window))
    sys.stdout.buffer.write(msgspec.json.encode(traced))
