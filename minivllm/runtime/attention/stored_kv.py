"""The torch backend over a KV cache in another dtype: int8 with scales, or bfloat16.

All attention reads keys and values *as stored*, those of its own step too. With the exact ones, a
token's numbers would depend on the chunk that computed it.

Cache layout with int8, one tensor for each layer: [num_blocks, block_size, 2 * num_kv_heads *
(head_size + 4)] bytes. A token's row has the int8 keys of all heads, the values, then the float32
scales in the same order. So copying a block copies its scales.

Source: vLLM's `int8_per_token_head` (`vllm/v1/attention/ops/triton_reshape_and_cache_flash.py`).
"""

import torch

from minivllm.kernels.reference_ops import dequantize_heads, quantize_heads
from minivllm.runtime.attention.torch_backend import TorchAttentionBackend, TorchAttentionMetadata


class StoredKVBackend(TorchAttentionBackend):
    """Converts keys and values as it writes them, and back as it reads them."""

    def _as_read(self, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        stored = self._from_stored(self._to_stored(torch.cat((key, value), dim=1)))
        return stored.split(self._spec.num_kv_heads, dim=1)

    def _write(
        self,
        cache: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        metadata: TorchAttentionMetadata,
    ) -> None:
        rows = self._to_stored(torch.cat((key, value), dim=1))
        if metadata.written_rows is not None:
            rows = rows[metadata.written_rows]
        cache.flatten(0, 1).index_copy_(0, metadata.written_slots, rows)

    def _read(
        self,
        cache: torch.Tensor,
        block_ids: torch.Tensor,
        num_seqs: int,
        padding: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = self._from_stored(cache[block_ids].flatten(0, 1))
        if padding is not None:
            tokens.index_fill_(0, padding, 0.0)
        by_head = tokens.unflatten(0, (num_seqs, -1)).transpose(1, 2)
        return by_head.split(self._spec.num_kv_heads, dim=1)

    def read_blocks(self, layer: int, block_ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """See `AttentionBackend.read_blocks`."""
        blocks = self._from_stored(self.kv_caches[layer][block_ids])
        return blocks.split(self._spec.num_kv_heads, dim=2)

    def _to_stored(self, heads: torch.Tensor) -> torch.Tensor:
        """[num_tokens, 2 * num_kv_heads, head_size] -> rows of the cache."""
        if not self._spec.has_scales:
            return heads.to(self._spec.stored_dtype)
        numbers, scales = quantize_heads(heads)
        return torch.cat((numbers.flatten(1), scales.view(torch.int8)), dim=1)

    def _from_stored(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows of the cache -> [..., 2 * num_kv_heads, head_size] in the model's dtype."""
        if not self._spec.has_scales:
            return rows.to(self._spec.dtype)
        shape = (2 * self._spec.num_kv_heads, self._spec.head_size)
        numbers, scales = rows.split(
            (shape[0] * shape[1], rows.shape[-1] - shape[0] * shape[1]), -1
        )
        heads = dequantize_heads(numbers.unflatten(-1, shape), scales.view(torch.float32))
        return heads.to(self._spec.dtype)
