"""`AttentionWatcher`: records the layers' attention during one forward pass."""

from __future__ import annotations

import torch

from minivllm.runtime.attention.backend import AttentionBackend
from minivllm.runtime.attention.mass import AttentionMassMeter, TokenMeter
from minivllm.runtime.attention.xray import DecodeSample, DecodeSampler
from minivllm.runtime.input_batch import CommonAttentionMetadata
from minivllm.runtime.step_result import TokenShares, Watch


class AttentionWatcher:
    """Records what a `Watch` asks for.

    Call `add_layer` after each layer's attention, when the layer's keys are in the cache.
    """

    def __init__(
        self,
        watch: Watch,
        common: CommonAttentionMetadata,
        attention: AttentionBackend,
        block_size: int,
        device: torch.device,
    ) -> None:
        self._mass = None
        if watch.attention_mass:
            self._mass = AttentionMassMeter(common, block_size, device, attention.attention_mass)
        self._tokens = None
        if watch.tokens is not None:
            self._tokens = TokenMeter(common, block_size, watch.tokens, attention.read_blocks)
        self._decodes = DecodeSampler(common, watch.decodes, block_size, attention.read_blocks)

    def add_layer(self, layer: int, query: torch.Tensor) -> None:
        """query: [num_tokens, num_heads, head_size], rotated"""
        if self._mass is not None:
            self._mass.add_layer(layer, query)
        if self._tokens is not None:
            self._tokens.add_layer(layer, query)
        self._decodes.add_layer(layer, query)

    @property
    def attention_mass(self) -> list[list[float]]:
        return [] if self._mass is None else self._mass.result()

    @property
    def token_attention(self) -> TokenShares | None:
        return None if self._tokens is None else self._tokens.result()

    @property
    def decode_samples(self) -> list[DecodeSample]:
        return self._decodes.samples
