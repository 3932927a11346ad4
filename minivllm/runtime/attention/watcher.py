"""`AttentionWatcher`: an attention backend that records what another one does in a single step."""

from typing import Any

import torch

from minivllm.kernels.reference_ops import rotate
from minivllm.runtime.attention.backend import AttentionBackend
from minivllm.runtime.attention.mass import AttentionMassMeter, TokenMeter
from minivllm.runtime.attention.xray import DecodeSampler
from minivllm.runtime.input_batch import CommonAttentionMetadata
from minivllm.runtime.step_result import StepResult, Watch


class AttentionWatcher:
    """Records what a `Watch` asks for, layer by layer, in one forward pass."""

    def __init__(
        self,
        watch: Watch,
        common: CommonAttentionMetadata,
        attention: AttentionBackend,
        block_size: int,
        device: torch.device,
    ) -> None:
        self._attention = attention
        self._last_rows = torch.from_numpy(common.last_rows).to(device)
        step = (common, block_size)
        self._decodes = DecodeSampler(*step, watch.decodes, attention.read_blocks)
        self._mass = self._tokens = None
        if watch.attention_mass:
            self._mass = AttentionMassMeter(*step, device, attention.attention_mass)
        if watch.tokens is not None:
            self._tokens = TokenMeter(*step, watch.tokens, attention.read_blocks)

    def forward(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cos_sin: tuple[torch.Tensor, torch.Tensor],
        metadata: Any,
    ) -> torch.Tensor:
        """See `AttentionBackend.forward`; also record the attention of each sequence's last row."""
        # Before the backend runs: it may rotate `query` in place.
        last = rotate(*(x[self._last_rows] for x in (query, *cos_sin)))
        output = self._attention.forward(layer, query, key, value, cos_sin, metadata)
        for meter in (self._mass, self._tokens, self._decodes):
            if meter is not None:
                meter.add_layer(layer, last)
        return output

    def add_to(self, result: StepResult) -> StepResult:
        """Return the step's result with the records."""
        return result._replace(
            attention_mass=[] if self._mass is None else self._mass.result(),
            token_attention=None if self._tokens is None else self._tokens.result(),
            decode_samples=self._decodes.samples,
        )
