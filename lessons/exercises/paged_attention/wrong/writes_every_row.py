"""Every token of the step is written."""

import torch

from minivllm.runtime.attention import torch_backend as engine

HINT = "A token that is already in the cache has no slot. Which rows do the slots belong to?"


class TorchAttentionBackend(engine.TorchAttentionBackend):
    def _write(
        self,
        cache: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        metadata: engine.TorchAttentionMetadata,
    ) -> None:
        if metadata.written_rows is not None:
            rows = torch.arange(len(metadata.written_slots))
            key, value = key[rows], value[rows]
        cache.flatten(0, 1).index_copy_(0, metadata.written_slots, torch.cat((key, value), dim=1))
