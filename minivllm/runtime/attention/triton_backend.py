"""The attention backend `triton`: paged attention with `minivllm.kernels`, on CUDA or interpreted.

A layer has one launch that rotates and writes keys and values (or torch rotates, and the launch
writes), one for all prefill chunks, and one for all decodes (two if contexts are split). The
backend's name selects the kernel version:

    triton:naive, triton:grouped, triton:split    the decode kernel
    triton:static     for decode steps over tensors with fixed addresses (`cuda_graphs`); in other
                      steps it runs `split`
    triton:unified    like `static`, but a step with many decodes and a few chunks attends in a
                      single launch (`_takes_one_launch`)

Cache layout, one tensor for all layers: [num_layers, 2, num_blocks, num_kv_heads, block_size,
head_size]. A program reads one key head, whose tokens in a block are contiguous. Kernels see
[num_blocks, block_size, num_kv_heads, head_size] through strides. The cache is not initialized,
because kernels read only slots that have been written. With int8, each head's part of a block ends
with the float32 scales of its tokens, so copying a block copies them too.

Source: vLLM `vllm/v1/attention/backends/triton_attn.py`.
"""

from dataclasses import dataclass

import numpy as np
import torch

from minivllm.config import SCALE_BYTES
from minivllm.core.scheduler_output import BlockCopy
from minivllm.errors import ConfigError
from minivllm.kernels import reference
from minivllm.kernels.attention.attention_mass import attention_mass
from minivllm.kernels.attention.decode_grouped import decode_grouped
from minivllm.kernels.attention.decode_naive import decode_naive
from minivllm.kernels.attention.decode_split import (
    choose_num_splits,
    decode_split,
    num_processors_of,
)
from minivllm.kernels.attention.decode_static import StaticDecode
from minivllm.kernels.attention.prefill import list_query_tiles, prefill_attention
from minivllm.kernels.attention.unified import unified_attention
from minivllm.kernels.kv_write import copy_blocks
from minivllm.kernels.mode import INTERPRETED
from minivllm.kernels.reference_ops import dequantize_heads
from minivllm.kernels.rotary import rotary_and_cache, rotate_then_cache
from minivllm.runtime.attention.partial import Rows
from minivllm.runtime.attention.torch_backend import as_rows
from minivllm.runtime.cuda_graphs import StaticInputs
from minivllm.runtime.input_batch import CommonAttentionMetadata
from minivllm.runtime.kv_cache import KVCacheSpec

KERNEL_VERSIONS = ("naive", "grouped", "split", "static", "unified")
_UNSPLIT = {"naive": decode_naive, "grouped": decode_grouped}

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
HEAD_SIZES = range(8, 257, 2)
"""Rotation swaps the halves of a head, so the head size must be even. At the largest size, a tile
of keys and values still fits into a multiprocessor.
"""
MAX_CHUNK_TOKENS = 2048
"""With at most this many chunk tokens in a step, one launch of the unified kernel is faster than
two launches (measured, docs/measured/gpu/sweep.json).
"""
MIN_CAPABILITY = (8, 0)
"""Triton does not compile our kernels for older GPUs: before sm_80 there is no bfloat16."""


@dataclass(slots=True)
class Decodes:
    """The sequences for which this step computes one token, if they have a launch of their own."""

    rows: Rows
    """Rows of these sequences in the flat batch."""
    block_tables: torch.Tensor
    """[num_decodes, max_blocks] int32"""
    seq_lens: torch.Tensor
    """[num_decodes] int32, including this step's token"""
    num_splits: int


@dataclass(slots=True)
class Ragged:
    """All sequences of a step with chunks; the launch takes these and perhaps the decodes, too."""

    block_tables: torch.Tensor
    """[num_seqs, max_blocks] int32"""
    query_start_loc: torch.Tensor
    """[num_seqs + 1] int32"""
    seq_lens: torch.Tensor
    """[num_seqs] int32"""
    tiles: torch.Tensor | None
    """[num_tiles, 2] int32: (sequence, first token within its chunk), for the chunks alone.

    None in a step of `triton:unified` that takes one launch for all sequences.
    """


@dataclass(slots=True)
class TritonAttentionMetadata:
    """Which kernel gets which sequences of a step."""

    slot_mapping: torch.Tensor
    """[num_tokens] int64"""
    decodes: Decodes | None = None
    ragged: Ragged | None = None
    static: StaticDecode | None = None
    """In a decode step of `DecodeGraphs`, replaces the others: one row per token, then padding."""


class TritonAttentionBackend:
    """Owns the KV cache of all layers and launches the kernels over it."""

    def __init__(
        self,
        version: str,
        spec: KVCacheSpec,
        num_blocks: int,
        device: torch.device,
        num_heads: int,
        max_num_rows: int,
        max_model_len: int,
        fuses_rotation: bool = False,
    ) -> None:
        """Allocate the cache; see `get_attention_backend`. version: one of `KERNEL_VERSIONS`"""
        self.check_support(version, spec, device)
        self._version, self._num_heads = version, num_heads
        self._spec, self._device, self._windows = spec, device, spec.windows
        self._scale = spec.head_size**-0.5
        block = (spec.block_size, spec.head_size)  # of one head
        if spec.has_scales:
            block = (spec.block_size * (spec.head_size + SCALE_BYTES),)
        shape = (spec.num_layers, 2, num_blocks, spec.num_kv_heads, *block)
        self.kv_cache = numbers = torch.empty(shape, dtype=spec.stored_dtype, device=device)
        self.kv_caches = list(numbers.flatten(0, 1))
        if spec.has_scales:
            numbers = numbers[..., : spec.block_size * spec.head_size]
            numbers = numbers.unflatten(-1, (spec.block_size, spec.head_size))
        self._views = [tuple(cache.transpose(1, 2) for cache in layer) for layer in numbers]
        self._num_processors = num_processors_of(device)
        self._rotate_and_cache = rotary_and_cache if fuses_rotation else rotate_then_cache
        if version in ("static", "unified"):
            key_cache = self._views[0][0]
            self._static = StaticDecode(
                max_num_rows, max_model_len, key_cache, num_heads, self._scale,
                self._num_processors, spec.dtype,
            )  # fmt: skip
            self.static_inputs = StaticInputs(self._static.block_tables)
            self._static.seq_lens = self.static_inputs.on_device.seq_lens

    def attention_mass(
        self, layer: int, query: torch.Tensor, block_tables: torch.Tensor, seq_lens: torch.Tensor
    ) -> torch.Tensor:
        """See `AttentionBackend.attention_mass`."""
        keys, window = self._views[layer][0], self._windows[layer]
        return attention_mass(query, keys, block_tables, seq_lens, self._scale, window)

    def read_blocks(self, layer: int, block_ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """See `AttentionBackend.read_blocks`."""
        keys, values = (cache[block_ids] for cache in self._views[layer])
        if self._spec.has_scales:
            ends = self.kv_cache[layer, :, block_ids, :, -self._spec.block_size * SCALE_BYTES :]
            # [2, num_blocks, block_size, num_kv_heads]
            scales = ends.contiguous().view(torch.float32).transpose(2, 3)
            keys, values = dequantize_heads(keys, scales[0]), dequantize_heads(values, scales[1])
        return keys.to(self._spec.dtype), values.to(self._spec.dtype)

    # ---- once a step ----

    def copy_blocks(self, copies: list[BlockCopy]) -> None:
        """See `AttentionBackend.copy_blocks`."""
        caches = self.kv_cache.flatten(0, 1)  # [num_layers * 2, num_blocks, ...], a view
        src, dst = torch.tensor(copies, dtype=torch.int64).T.contiguous()  # [num_copies] each
        if set(src.tolist()) & set(dst.tolist()):
            # A source that was freed and allocated again in this step is also a destination, and
            # programs run in any order. This is too rare for a kernel of its own.
            reference.copy_blocks(caches, src, dst)
        else:
            copy_blocks(caches, *(ids.to(self._device, non_blocking=True) for ids in (src, dst)))

    def build(self, common: CommonAttentionMetadata) -> TritonAttentionMetadata:
        """Split the step's sequences into decodes and chunks, or keep both in one launch."""
        lengths = np.diff(common.query_start_loc)  # [num_seqs]
        seq_lens = common.num_computed_tokens + lengths
        decodes, chunked = np.flatnonzero(lengths == 1), np.flatnonzero(lengths > 1)
        in_one = self._version == "unified" and self._takes_one_launch(lengths, seq_lens[decodes])
        metadata = TritonAttentionMetadata(self._tensor(common.slot_mapping))
        if len(chunked):
            step = (common.block_tables, common.query_start_loc, seq_lens)
            tiles = None if in_one else self._list_tiles(lengths, chunked)
            metadata.ragged = Ragged(*map(self._int32, step), tiles)
        if len(decodes) and not in_one:
            metadata.decodes = Decodes(
                rows=as_rows(common.query_start_loc[decodes], self._device),
                block_tables=self._int32(common.block_tables[decodes]),
                seq_lens=self._int32(seq_lens[decodes]),
                num_splits=self._num_splits(seq_lens[decodes]),
            )
        return metadata

    def _takes_one_launch(self, lengths: np.ndarray, decode_lens: np.ndarray) -> bool:
        """Whether the unified kernel is faster for a step, according to measurements.

        In a mixed step it does not split contexts, so a few long decodes need `decode_split`. Its
        tiles are too small for steps that consist mostly of chunks. lengths: [num_seqs] tokens in
        the step; decode_lens: [num_decodes] context lengths
        """
        num_decodes, chunk_tokens = len(decode_lens), int(lengths.sum()) - len(decode_lens)
        if num_decodes == 0 or not 0 < chunk_tokens <= MAX_CHUNK_TOKENS:
            return False
        return self._num_splits(decode_lens) == 1

    def _num_splits(self, decode_lens: np.ndarray) -> int:
        size = len(decode_lens), self._spec.num_kv_heads, int(decode_lens.max())
        return choose_num_splits(*size, self._num_processors)

    def _list_tiles(self, lengths: np.ndarray, members: np.ndarray) -> torch.Tensor:
        """lengths: [num_seqs]; members: [num_chunks] indices of sequences"""
        group = self._num_heads // self._spec.num_kv_heads
        tiles = list_query_tiles(
            lengths.tolist(), members.tolist(), group, self._spec.head_size, self._spec.dtype
        )
        return tiles.to(self._device, non_blocking=True)

    def _int32(self, array: np.ndarray) -> torch.Tensor:
        # Half the memory of the engine's int64. The launchers widen the array if offsets need 64
        # bits (`wide_enough`).
        return self._tensor(array.astype(np.int32))

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device, non_blocking=True)

    # ---- decode steps, for the kernel version `static` ----

    def static_metadata(self, num_rows: int) -> TritonAttentionMetadata:
        """Return `forward`'s metadata for the first `num_rows` rows of `static_inputs`."""
        slot_mapping = self.static_inputs.on_device.slot_mapping[:num_rows]
        return TritonAttentionMetadata(slot_mapping, static=self._static.first_rows(num_rows))

    # ---- once a layer ----

    def forward(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cos_sin: tuple[torch.Tensor, torch.Tensor],
        metadata: TritonAttentionMetadata,
    ) -> torch.Tensor:
        caches, window = self._views[layer], self._windows[layer]
        slots = metadata.slot_mapping
        query = self._rotate_and_cache(query, key, value, *cos_sin, *caches, slots)
        if metadata.static is not None:
            return metadata.static(query, *caches, window)
        output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        if metadata.ragged is not None:
            r = metadata.ragged
            step = (query, *caches, r.block_tables, r.query_start_loc, r.seq_lens, self._scale)
            if r.tiles is None:
                unified_attention(*step, has_chunks=True, out=output, window=window)
            else:
                prefill_attention(*step, r.tiles, output, window)
        if metadata.decodes is not None:
            self._decode(layer, query, metadata.decodes, output)
        return output

    def _decode(
        self, layer: int, query: torch.Tensor, decodes: Decodes, output: torch.Tensor
    ) -> None:
        """Attend for the decodes, and write their rows of `output`."""
        rows = decodes.rows
        tables = decodes.block_tables, decodes.seq_lens
        arguments = (query[rows], *self._views[layer], *tables, self._scale)
        out = output[rows] if isinstance(rows, slice) else None  # a view if the rows are neighbours
        window = self._windows[layer]
        options = {"out": out, "window": window} if window else {"out": out}
        if (kernel := _UNSPLIT.get(self._version)) is not None:
            out = kernel(*arguments, **options)
        else:
            out = decode_split(*arguments, num_splits=decodes.num_splits, **options)
        if not isinstance(rows, slice):
            output[rows] = out

    # ---- supported models and devices ----

    @staticmethod
    def check_support(version: str, spec: KVCacheSpec, device: torch.device) -> None:
        """Raise `ConfigError` if the kernels do not support this model or device."""
        if version not in KERNEL_VERSIONS:
            raise ConfigError(
                f"attention_backend triton has the kernel versions {', '.join(KERNEL_VERSIONS)};"
                f" got {version!r}."
            )
        if spec.dtype not in DTYPES:
            raise ConfigError(
                "attention_backend triton supports float32, bfloat16 and float16; got dtype"
                f" {spec.dtype}."
            )
        if version == "naive" and (spec.has_scales or any(spec.windows)):
            raise ConfigError(
                "attention_backend triton:naive, the first version of the lessons, has no sliding"
                " window and no int8 KV cache: use triton:grouped or a later version."
            )
        if spec.head_size not in HEAD_SIZES:
            raise ConfigError(
                f"attention_backend triton supports even head sizes from {HEAD_SIZES[0]} to"
                f" {HEAD_SIZES[-1]}, but this model's head size is {spec.head_size}; use"
                " attention_backend='torch'."
            )
        if device.type == "cuda" and INTERPRETED:
            raise ConfigError(
                "attention_backend triton has no compiled kernels here, because TRITON_INTERPRET=1"
                " is set; unset it, or use device='cpu' or attention_backend='torch'."
            )
        if device.type != "cuda" and not (device.type == "cpu" and INTERPRETED):
            raise ConfigError(
                f"attention_backend triton cannot run on device {device.type} here; use a CUDA"
                " device or attention_backend='torch'. (On a CPU its kernels can be interpreted,"
                " slowly: set TRITON_INTERPRET=1.)"
            )
        if device.type == "cuda" and torch.cuda.get_device_capability(device) < MIN_CAPABILITY:
            raise ConfigError(
                "attention_backend triton needs a GPU of compute capability"
                f" {'.'.join(map(str, MIN_CAPABILITY))} but {torch.cuda.get_device_name(device)}"
                " has less; use attention_backend='torch'."
            )
