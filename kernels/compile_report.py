"""`python -m minivllm.kernels.compile_report`: compile every kernel for GPUs, without a GPU.

It prints a row for each kernel, model shape and target: registers per thread, spills (bytes that do
not fit into the registers), shared memory per program, and the kinds of matrix instructions. A
spill or a missing matrix instruction slows a kernel down without changing its results.

TRITON_INTERPRET=0 must be set before Triton is imported, because interpreted kernels cannot be
compiled.
"""

import os

if __name__ == "__main__":
    os.environ["TRITON_INTERPRET"] = "0"

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch

from minivllm.kernels.attention.attention_mass import attention_mass
from minivllm.kernels.attention.decode_grouped import decode_grouped
from minivllm.kernels.attention.decode_naive import decode_naive
from minivllm.kernels.attention.decode_split import decode_split
from minivllm.kernels.attention.prefill import prefill_attention
from minivllm.kernels.attention.unified import unified_attention
from minivllm.kernels.compile_launch import TARGETS, Compiled, compile_launch, record_launches
from minivllm.kernels.fused_moe import grouped_linear, moe_align_block_size
from minivllm.kernels.kv_write import copy_blocks, reshape_and_cache
from minivllm.kernels.norm_act import add_rms_norm, rms_norm, silu_and_mul
from minivllm.kernels.rotary import rotary_and_cache

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a model that its kernels depend on."""

    num_heads: int
    num_kv_heads: int
    head_size: int
    hidden_size: int
    intermediate_size: int


MODEL_SHAPES = {
    "smollm2-135m": ModelShape(9, 3, 64, 576, 1536),
    "qwen2.5-0.5b": ModelShape(14, 2, 64, 896, 4864),
    "qwen3-0.6b": ModelShape(16, 8, 128, 1024, 3072),
    "llama-3.2-1b": ModelShape(32, 8, 64, 2048, 8192),
    "llama-3.1-8b": ModelShape(32, 8, 128, 4096, 14336),
}


@dataclass(frozen=True)
class CompiledKernel:
    kernel: str
    shape: str
    dtype: str
    target: str
    compiled: Compiled


def operations(
    shape: ModelShape,
    dtype: torch.dtype,
    block_size: int,
    num_splits: int = 16,
    has_int8_cache: bool = False,
    window: int = 0,
) -> dict[str, Callable[[], object]]:
    """Return a call of each wrapper, like the engine's calls but over tensors without memory.

    has_int8_cache: a KV cache in int8 with scales, which `decode_naive` does not read
    window: how many tokens a token sees; 0 for all
    """
    num_seqs, num_tokens, num_layers, num_blocks = 32, 256, 4, 1024
    heads, kv_heads, head_size = shape.num_heads, shape.num_kv_heads, shape.head_size

    def empty(*sizes: int, dtype: torch.dtype = dtype) -> torch.Tensor:
        return torch.empty(sizes, dtype=dtype, device="meta")

    # As in the engine, query, key and value are slices of one projection, and a layer's caches are
    # slices of the cache of all layers.
    query, key, value = empty(num_tokens, heads + 2 * kv_heads, head_size).split(
        [heads, kv_heads, kv_heads], 1
    )
    all_caches = empty(num_layers * 2, num_blocks, kv_heads, block_size, head_size)
    if has_int8_cache:
        block = block_size * (head_size + 4)
        all_caches = empty(num_layers * 2, num_blocks, kv_heads, block, dtype=torch.int8)
        all_caches = all_caches[..., : block_size * head_size].unflatten(-1, (-1, head_size))
    caches = all_caches[0].transpose(1, 2), all_caches[1].transpose(1, 2)
    tables = empty(num_seqs, 128, dtype=torch.int32)
    lengths = empty(num_seqs, dtype=torch.int32)
    starts = empty(num_seqs + 1, dtype=torch.int32)
    tiles = empty(64, 2, dtype=torch.int32)
    slots = empty(num_tokens, dtype=torch.int64)
    ids = empty(3, dtype=torch.int64)
    hidden, weight = empty(num_tokens, shape.hidden_size), empty(shape.hidden_size)
    gate_up = empty(num_tokens, 2 * shape.intermediate_size)
    angles = empty(num_tokens, head_size)
    experts, table = empty(num_seqs, 2, dtype=torch.int64), empty(8, 2, dtype=torch.int64)
    of_expert = empty(shape.intermediate_size, shape.hidden_size)
    pairs = moe_align_block_size(experts, len(table), 16)
    decodes = (query[:num_seqs], *caches, tables, lengths, 0.125)
    batch = (*caches, tables, starts, lengths, 0.125)
    return {
        "reshape_and_cache": lambda: reshape_and_cache(key, value, *caches, slots),
        "copy_blocks": lambda: copy_blocks(all_caches, ids, ids),
        "decode_naive": lambda: decode_naive(*decodes),
        "decode_grouped": lambda: decode_grouped(*decodes, window=window),
        "decode_split": lambda: decode_split(*decodes, num_splits=num_splits, window=window),
        "attention_mass": lambda: attention_mass(
            query[:num_seqs], caches[0], tables, lengths, 0.125, window
        ),
        "prefill": lambda: prefill_attention(query, *batch, tiles, window=window),
        "unified_chunks": lambda: unified_attention(query, *batch, has_chunks=True, window=window),
        "unified_decodes": lambda: unified_attention(
            query[:num_seqs], *batch, has_chunks=False, window=window
        ),
        "unified_split": lambda: unified_attention(
            query[:num_seqs], *batch, has_chunks=False, num_splits=num_splits, window=window
        ),
        "rms_norm": lambda: rms_norm(hidden, weight, 1e-5),
        "add_rms_norm": lambda: add_rms_norm(hidden, hidden, weight, 1e-5),
        "silu_and_mul": lambda: silu_and_mul(gate_up),
        "grouped_linear": lambda: grouped_linear(
            hidden[:num_seqs], pairs, table[:, 0], of_expert, len(of_expert)
        ),
        "rotary_and_cache": lambda: rotary_and_cache(
            query, key, value, angles, angles, *caches, slots
        ),
    }


def compile_kernels(
    shapes: list[str], targets: list[str], dtype: str, block_size: int, window: int = 0
) -> Iterator[CompiledKernel]:
    """Compile the kernels and yield a row for each; a kernel takes a second unless it is cached."""
    for shape in shapes:
        calls = operations(MODEL_SHAPES[shape], DTYPES[dtype], block_size, window=window)
        for operation, call in calls.items():
            for i, launch in enumerate(record_launches(call)):
                # The first kernel has the operation's name, later kernels their own.
                kernel = operation if i == 0 else launch.kernel.__name__.removesuffix("_kernel")
                for target in targets:
                    yield CompiledKernel(
                        kernel, shape, dtype, target, compile_launch(launch, target)
                    )


def _as_json(row: CompiledKernel) -> dict[str, object]:
    fields = asdict(row)
    return fields | fields.pop("compiled")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="minivllm.kernels.compile_report", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--json", action="store_true", help="one JSON object with all rows")
    parser.add_argument(
        "--shape", action="append", choices=MODEL_SHAPES, help="a model's shape; default: all"
    )
    parser.add_argument("--target", action="append", choices=TARGETS, help="default: all")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--block-size", type=int, default=16)
    parser.add_argument("--window", type=int, default=0, help="tokens that a token sees; 0: all")
    options = parser.parse_args(arguments)
    rows = compile_kernels(
        options.shape or list(MODEL_SHAPES),
        options.target or list(TARGETS),
        options.dtype,
        options.block_size,
        options.window,
    )
    if options.json:
        print(json.dumps({"rows": [_as_json(row) for row in rows]}, indent=1))
        return
    print(
        f"{'kernel':18} {'shape':14} {'target':7} {'registers':>9} {'spills':>6} {'shared':>7} "
        " matrix instructions"
    )
    for row in rows:
        c = row.compiled
        matrix = ", ".join(c.matrix_instructions) or "-"
        print(
            f"{row.kernel:18} {row.shape:14} {row.target:7} {c.registers:9} {c.spills:6}"
            f" {c.shared_bytes:7}  {matrix}",
            flush=True,
        )


if __name__ == "__main__":
    main()
