"""A span consists of whole blocks."""

import torch

from minivllm.runtime.attention import torch_backend as engine
from minivllm.runtime.attention.partial import attend, merge

HINT = (
    "The context before a chunk may end inside a block. How many of the gathered tokens belong to"
    " the span?"
)


class TorchAttentionBackend(engine.TorchAttentionBackend):
    def _attend_spans(
        self,
        cache: torch.Tensor,
        query: torch.Tensor,
        metadata: engine.TorchAttentionMetadata,
        output: torch.Tensor,
        log_sum_exp: torch.Tensor,
    ) -> None:
        for span in metadata.spans:
            q = query[span.rows].transpose(0, 1).unsqueeze(0)
            k, v = self._read(cache, span.block_ids, num_seqs=1)
            out, lse = attend(q, k, v, self._scale)
            merge(output, log_sum_exp, span.rows, out[0].transpose(0, 1), lse[0].T)
