"""What each version of the decode kernel reads: the real kernels are interpreted and traced.

Only the positions of the reads matter, so the inputs are random numbers in the shapes of a model.
Each output is compared with that of the reference implementation. With a CUDA device, kernels are
compiled and cannot be traced, so they are interpreted in a separate process.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass

from minivllm.errors import LessonError

SPLITS = 2
"""Number of parts for the kernel `split`. The context is short, because interpreting is slow."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of one decode: a sequence, and padded rows as in a graph for a larger batch."""

    num_heads: int
    num_kv_heads: int
    head_size: int
    context: int
    block_size: int = 16
    padded_rows: int = 3


@dataclass(frozen=True, slots=True)
class Look:
    programs: int
    """Number of programs that read keys."""
    keys_read: int
    """Number of keys read by all programs together; a key is one head's vector for one token."""
    idle_programs: int
    """Number of programs that read no key: programs of padded rows, or that combine parts."""
    right: bool
    """Whether the output equals that of the reference implementation."""


def look(shape: Shape) -> dict[str, Look]:
    """Run and trace every kernel version once.

    Raises `LessonError` if the kernels cannot be interpreted.
    """
    if not _is_interpreted_here():
        return _look_elsewhere(shape)
    return _look_here(shape)


def _is_interpreted_here() -> bool:
    try:
        from minivllm.kernels.mode import INTERPRETED
    except ImportError:  # Triton is already imported, in the mode that compiles
        return False
    return INTERPRETED


def _look_here(shape: Shape) -> dict[str, Look]:
    import torch

    from minivllm.kernels import trace
    from minivllm.kernels.attention.decode_grouped import decode_grouped
    from minivllm.kernels.attention.decode_naive import decode_naive
    from minivllm.kernels.attention.decode_split import SplitWorkspace, decode_split
    from minivllm.kernels.attention.decode_static import StaticDecode
    from minivllm.kernels.attention.unified import unified_attention
    from minivllm.kernels.reference import decode_attention

    num_blocks = -(-shape.context // shape.block_size)
    generator = torch.Generator().manual_seed(0)
    keys, values = (
        torch.randn(
            num_blocks, shape.block_size, shape.num_kv_heads, shape.head_size, generator=generator
        )
        for _ in range(2)
    )
    query = torch.randn(1, shape.num_heads, shape.head_size, generator=generator)
    table = torch.randperm(num_blocks, generator=generator, dtype=torch.int32).unsqueeze(0)
    lengths = torch.tensor([shape.context], dtype=torch.int32)
    scale = shape.head_size**-0.5
    expected = decode_attention(query, keys, values, table, lengths, scale)
    num_rows = 1 + shape.padded_rows
    static = StaticDecode(num_rows, shape.context, keys, shape.num_heads, scale)
    static.set_batch(table, lengths)
    workspace = SplitWorkspace.empty(query, SPLITS)
    starts = torch.tensor([0, 1], dtype=torch.int32)
    calls = {
        "naive": lambda: decode_naive(query, keys, values, table, lengths, scale),
        "grouped": lambda: decode_grouped(query, keys, values, table, lengths, scale),
        "split": lambda: decode_split(
            query, keys, values, table, lengths, scale, SPLITS, workspace
        ),
        "static": lambda: static(query.expand(num_rows, -1, -1).contiguous(), keys, values),
        "unified": lambda: unified_attention(
            query, keys, values, table, starts, lengths, scale, has_chunks=False
        ),
    }
    looks: dict[str, Look] = {}
    for version, call in calls.items():
        traced = trace(call, keys)
        reads = [
            sum(read.num_slots for tile in program.tiles for read in tile.reads)
            for program in traced.programs
        ]
        right = torch.allclose(traced.result[:1], expected, rtol=1e-4, atol=1e-4)
        looks[version] = Look(sum(map(bool, reads)), sum(reads), reads.count(0), right)
    return looks


def _look_elsewhere(shape: Shape) -> dict[str, Look]:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [
        sys.executable,
        "-m",
        "minivllm.lessons.shown.kernel_reads",
        json.dumps(asdict(shape)),
    ]
    worker = subprocess.run(command, capture_output=True, env=environment, timeout=60)
    if worker.returncode != 0:
        last_words = worker.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise LessonError(f"The kernels could not be watched: {last_words}")
    return {version: Look(**seen) for version, seen in json.loads(worker.stdout).items()}


if __name__ == "__main__":
    print(
        json.dumps(
            {
                version: asdict(seen)
                for version, seen in _look_here(Shape(**json.loads(sys.argv[1]))).items()
            }
        )
    )
