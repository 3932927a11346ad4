"""A token's values come before its keys."""

import torch

from minivllm.runtime.attention import torch_backend as engine

HINT = "The cache has the keys of all heads first; key_cache and value_cache read it this way."


class TorchAttentionBackend(engine.TorchAttentionBackend):
    def _write(
        self,
        cache: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        metadata: engine.TorchAttentionMetadata,
    ) -> None:
        super()._write(cache, value, key, metadata)
