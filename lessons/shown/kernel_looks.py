"""Runs and traces every version of the decode kernel in this process, for `kernel_reads`.

Where kernels are compiled, `kernel_reads` starts it as a program. So it takes and returns what JSON
can hold.
"""

import json
import sys

import torch

from minivllm.kernels.attention.decode_grouped import decode_grouped
from minivllm.kernels.attention.decode_naive import decode_naive
from minivllm.kernels.attention.decode_split import SplitWorkspace, decode_split
from minivllm.kernels.attention.decode_static import StaticDecode
from minivllm.kernels.attention.unified import unified_attention
from minivllm.kernels.reference import decode_attention
from minivllm.kernels.xray import trace


def look_here(
    num_heads: int,
    num_kv_heads: int,
    head_size: int,
    context: int,
    block_size: int,
    padded_rows: int,
    splits: int,
) -> dict[str, dict[str, int]]:
    """Run and trace every kernel version once. Kernels must be interpreted here.

    Takes the fields of a `Shape`, and returns for each version the fields of a `Look`.
    """
    num_blocks = -(-context // block_size)
    generator = torch.Generator().manual_seed(0)
    keys, values = (
        torch.randn(num_blocks, block_size, num_kv_heads, head_size, generator=generator)
        for _ in range(2)
    )
    query = torch.randn(1, num_heads, head_size, generator=generator)
    table = torch.randperm(num_blocks, generator=generator, dtype=torch.int32).unsqueeze(0)
    lengths = torch.tensor([context], dtype=torch.int32)
    scale = head_size**-0.5
    expected = decode_attention(query, keys, values, table, lengths, scale)
    num_rows = 1 + padded_rows
    static = StaticDecode(num_rows, context, keys, num_heads, scale)
    static.set_batch(table, lengths)
    workspace = SplitWorkspace.empty(query, splits)
    starts = torch.tensor([0, 1], dtype=torch.int32)
    calls = {
        "naive": lambda: decode_naive(query, keys, values, table, lengths, scale),
        "grouped": lambda: decode_grouped(query, keys, values, table, lengths, scale),
        "split": lambda: decode_split(
            query, keys, values, table, lengths, scale, splits, workspace
        ),
        "static": lambda: static(query.expand(num_rows, -1, -1).contiguous(), keys, values),
        "unified": lambda: unified_attention(
            query, keys, values, table, starts, lengths, scale, has_chunks=False
        ),
    }
    looks: dict[str, dict[str, int]] = {}
    for version, call in calls.items():
        traced = trace(call, keys)
        reads = [
            sum(read.num_slots for tile in program.tiles for read in tile.reads)
            for program in traced.programs
        ]
        right = torch.allclose(traced.result[:1], expected, rtol=1e-4, atol=1e-4)
        looks[version] = {
            "programs": sum(map(bool, reads)),
            "keys_read": sum(reads),
            "idle_programs": reads.count(0),
            "right": right,
        }
    return looks


if __name__ == "__main__":
    print(json.dumps(look_here(**json.load(sys.stdin))))
