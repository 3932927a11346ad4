"""Keys that are zero have no weight, so the mask is not needed."""

import torch

from minivllm.runtime.attention import torch_backend as engine
from minivllm.runtime.attention.partial import attend

HINT = "A score of 0 still has weight: exp(0) is 1. Which argument removes a key from the softmax?"


class TorchAttentionBackend(engine.TorchAttentionBackend):
    def _attend_decodes(
        self,
        cache: torch.Tensor,
        query: torch.Tensor,
        metadata: engine.TorchAttentionMetadata,
        output: torch.Tensor,
        log_sum_exp: torch.Tensor,
    ) -> None:
        for bucket in metadata.decodes:
            k, v = self._read(cache, bucket.block_ids, len(bucket.mask), bucket.padding)
            out, lse = attend(query[bucket.rows].unsqueeze(2), k, v, self._scale)
            output[bucket.rows], log_sum_exp[bucket.rows] = out.squeeze(2), lse.squeeze(2)
