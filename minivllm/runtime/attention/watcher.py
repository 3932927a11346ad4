"""`AttentionWatcher`: an attention backend that records what another one does in a single step.

After each layer's attention, the cache has all keys of the layer. So the recorded numbers are
computed from the cache and from the rotated queries of each sequence's last token, which is a
token of this step.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from minivllm.kernels.reference_ops import rotate
from minivllm.runtime.attention.backend import AttentionBackend
from minivllm.runtime.attention.torch_backend import attention_weights
from minivllm.runtime.input_batch import CommonAttentionMetadata
from minivllm.runtime.kv_cache import KVCacheSpec
from minivllm.runtime.model.decoder import Decoder, ExpertRouter, Experts
from minivllm.runtime.step_result import DecodeSample, StepResult, TokenShares, Watch

SAMPLED_LAYER = 0


class AttentionWatcher:
    """Records what a `Watch` asks for, layer by layer, in one forward pass."""

    def __init__(
        self,
        watch: Watch,
        common: CommonAttentionMetadata,
        attention: AttentionBackend,
        spec: KVCacheSpec,
        device: torch.device,
    ) -> None:
        self._watch, self._common, self._attention = watch, common, attention
        self._block_size, self._windows = spec.block_size, spec.windows
        self._last_rows = torch.from_numpy(common.last_rows).to(device)
        self._num_layers = self._num_heads = 0
        self._samples: list[DecodeSample] = []
        self._tokens_per_expert: list[list[int]] = []  # of each layer
        self._tokens: list[torch.Tensor] = []  # of each watched layer: [num_tokens]
        self._mass = torch.zeros(common.block_tables.shape, device=device)  # [num_seqs, max_blocks]
        self._tables, self._seq_lens = (
            torch.from_numpy(array.astype(np.int32)).to(device)
            for array in (common.block_tables, common.seq_lens)
        )

    def forward(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cos_sin: tuple[torch.Tensor, torch.Tensor],
        metadata: Any,
    ) -> torch.Tensor:
        # Before the backend runs: it may rotate `query` in place.
        last = rotate(*(x[self._last_rows] for x in (query, *cos_sin)))
        output = self._attention.forward(layer, query, key, value, cos_sin, metadata)
        self._num_layers, self._num_heads = layer + 1, last.shape[1]
        if layer == SAMPLED_LAYER:
            self._samples = [self._sample(index, last[index]) for index in self._watch.decodes]
        if self._watch.attention_mass:
            mass = self._attention.attention_mass(layer, last, self._tables, self._seq_lens)
            self._mass += mass.mean(dim=1)
        if self._watch.tokens is not None:
            self._add_tokens(layer, last[self._watch.tokens.index])
        return output

    def count_experts(self, decoder: Decoder, run: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Run the decoder, and count the tokens that its routers send to each expert."""
        self._tokens_per_expert = [[] for _ in decoder.layers]

        def count(layer: int, router: ExpertRouter, _: Any, routed: Any) -> None:
            counts = routed[1].flatten().bincount(minlength=len(router.weight))
            self._tokens_per_expert[layer] = counts.tolist()

        hooks = [
            layer.mlp.gate.register_forward_hook(partial(count, number))
            for number, layer in enumerate(decoder.layers)
            if isinstance(layer.mlp, Experts)
        ]
        try:
            return run()
        finally:
            for hook in hooks:
                hook.remove()

    def _sample(self, index: int, query: torch.Tensor) -> DecodeSample:
        """Copy the inputs of a decode. query: [num_heads, head_size]"""
        block_ids = self._common.block_ids(index, self._block_size)
        # The cache can be a permuted view, and indexing it by a list keeps its memory order.
        read = self._attention.read_blocks(SAMPLED_LAYER, block_ids)
        keys, values = (blocks.cpu().contiguous() for blocks in read)
        seq_len = int(self._common.seq_lens[index])
        window = self._windows[SAMPLED_LAYER]
        query = query.cpu().clone()
        return DecodeSample(SAMPLED_LAYER, seq_len, block_ids, query, keys, values, window)

    def _add_tokens(self, layer: int, query: torch.Tensor) -> None:
        """Add one layer's attention of the watched sequence. query: [num_heads, head_size]"""
        asked = self._watch.tokens
        if asked.layer not in (None, layer) or (asked.head or 0) >= self._num_heads:
            return
        block_ids = self._common.block_ids(asked.index, self._block_size)
        keys, _ = self._attention.read_blocks(layer, block_ids)
        seq_len = int(self._common.seq_lens[asked.index])
        scale, window = query.shape[1] ** -0.5, self._windows[layer]
        weights = attention_weights(query, keys, seq_len, scale, window)
        self._tokens.append(weights.mean(dim=0) if asked.head is None else weights[asked.head])

    def add_to(self, result: StepResult) -> StepResult:
        """Return the step's result with the records."""
        tokens, mass = None, []
        if self._tokens:
            weights = (sum(self._tokens) / len(self._tokens)).tolist()
            tokens = TokenShares(self._watch.tokens, weights, self._num_layers, self._num_heads)
        if self._watch.attention_mass:
            num_blocks = (-(-self._common.seq_lens // self._block_size)).tolist()
            rows = (self._mass / self._num_layers).tolist()
            mass = [row[:num] for row, num in zip(rows, num_blocks, strict=True)]
        return result._replace(
            attention_mass=mass,
            token_attention=tokens,
            decode_samples=self._samples,
            tokens_per_expert=self._tokens_per_expert,
        )
