"""`BlockBytes`: whole blocks of the KV cache as bytes, to send them to another engine."""

from collections.abc import Sequence as Seq

import torch


class BlockBytes:
    """All keys, values and scales of a block, one layer after another."""

    def __init__(self, kv_caches: Seq[torch.Tensor]) -> None:
        self._caches = kv_caches

    def read(self, block_id: int) -> bytes:
        parts = (cache[block_id].flatten().view(torch.uint8) for cache in self._caches)
        return b"".join(part.cpu().numpy().tobytes() for part in parts)

    @torch.inference_mode()
    def write(self, block_id: int, content: bytes) -> None:
        start = 0
        for block in (cache[block_id] for cache in self._caches):
            part = bytearray(content[start : start + block.nbytes])
            block.copy_(torch.frombuffer(part, dtype=block.dtype).view(block.shape))
            start += block.nbytes
