"""Runs and traces every version of the decode kernel in this process, for `kernel_reads`.

As a program, it prints what `look_here` returns for a shape: `kernel_reads` starts it where kernels
are compiled.
"""

import json
import sys
from dataclasses import asdict

import torch

from minivllm.kernels.attention.decode_grouped import decode_grouped
from minivllm.kernels.attention.decode_naive import decode_naive
from minivllm.kernels.attention.decode_split import SplitWorkspace, decode_split
from minivllm.kernels.attention.decode_static import StaticDecode
from minivllm.kernels.attention.unified import unified_attention
from minivllm.kernels.reference import decode_attention
from minivllm.kernels.xray import trace
from minivllm.lessons.shown.kernel_reads import SPLITS, Look, Shape


def look_here(shape: Shape) -> dict[str, Look]:
    """Run and trace every kernel version once. Kernels must be interpreted here."""
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
            sum(read.num_slots for tile in one.tiles for read in tile.reads)
            for one in traced.programs
        ]
        right = torch.allclose(traced.result[:1], expected, rtol=1e-4, atol=1e-4)
        looks[version] = Look(sum(map(bool, reads)), sum(reads), reads.count(0), right)
    return looks


if __name__ == "__main__":
    looks = look_here(Shape(**json.loads(sys.argv[1])))
    print(json.dumps({version: asdict(seen) for version, seen in looks.items()}))
