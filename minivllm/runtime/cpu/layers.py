"""`CpuLayers`: runs all layers of a decoder in one call of `kernels/cpu/layers.c`.

The decoder's own loop does the same, one operation at a time, and is the reference implementation.
A step with one row spends as much time on the calls from Python as in the operations that are not
products. So the runner takes this way if `CpuLayers.supports` the decoder, except for steps whose
attention is watched layer by layer.
"""

import torch

from minivllm.kernels.cpu.ops import KINDS, workspace_size
from minivllm.kernels.cpu.packed_matrix import LANES, PackedMatrix
from minivllm.runtime.attention.cpu_backend import CpuAttentionBackend, CpuAttentionMetadata
from minivllm.runtime.cpu.load import load_cpu_ops
from minivllm.runtime.kv_cache import KVCacheSpec
from minivllm.runtime.model.decoder import Decoder, DecoderLayer, Linear
from minivllm.runtime.model.linear_backend import CpuMatrix


class CpuLayers:
    def __init__(self, decoder: Decoder, attention: CpuAttentionBackend, spec: KVCacheSpec) -> None:
        """Collect the addresses of all weights and caches. Both must stay where they are."""
        config = decoder.config
        self._decoder, self._caches = decoder, attention.kv_caches
        self._ops = load_cpu_ops()
        self._eps, self._scale = config.rms_norm_eps, config.head_size**-0.5
        self._window = spec.windows[0]  # of all layers
        rows = list(map(_describe, decoder.layers, self._caches))
        self._layers = torch.tensor(rows, dtype=torch.int64)
        hidden, gated = config.hidden_size, config.intermediate_size
        attended = config.num_attention_heads * config.head_size
        self._shape = torch.tensor(
            [
                len(rows), hidden, gated, config.num_attention_heads, config.num_key_value_heads,
                config.head_size, spec.block_size, KINDS.index(self._caches[0].dtype),
                decoder.layers[0].mlp.down_proj.matrix.rounds,
            ]
        )  # fmt: skip
        qkv = _packed(decoder.layers[0].self_attn.qkv_proj).padded_out_features
        wide, narrow = max(qkv, 2 * gated), max(attended, gated)
        self._row_size, self._most_inputs = 2 * hidden + wide + narrow, max(hidden, narrow)

    @staticmethod
    def supports(decoder: Decoder) -> bool:
        """Whether layers.c can run the layers: our matrices, Llama's operations, and no biases."""
        config = decoder.config
        if not config.is_llama:
            return False
        if config.hidden_size % LANES or config.intermediate_size % LANES:
            return False
        linears = [linear for layer in decoder.layers for linear in _linears(layer)]
        return all(
            linear.bias is None and isinstance(linear.matrix, CpuMatrix) for linear in linears
        )

    def __call__(
        self, token_ids: torch.Tensor, positions: torch.Tensor, metadata: CpuAttentionMetadata
    ) -> torch.Tensor:
        """Run the decoder: token_ids, positions: [num_tokens] -> [num_tokens, hidden_size]."""
        cos_sin = self._decoder.rotary.cos_sin(positions, torch.float32)
        hidden = self._decoder.embed(token_ids)
        size = len(hidden) * self._row_size + workspace_size(len(hidden), self._most_inputs)
        workspace = hidden.new_empty(size)
        self._ops.run_layers(
            self._layers, self._shape, self._eps, self._scale,
            hidden, cos_sin, metadata.slots, metadata.work[self._window], workspace,
        )  # fmt: skip
        return hidden


def _linears(layer: DecoderLayer) -> tuple[Linear, ...]:
    attention, mlp = layer.self_attn, layer.mlp
    return attention.qkv_proj, attention.o_proj, mlp.gate_up_proj, mlp.down_proj


def _packed(linear: Linear) -> PackedMatrix:
    return linear.matrix.packed


def _describe(layer: DecoderLayer, cache: torch.Tensor) -> list[int]:
    """Return `struct layer` of layers.c."""
    described = [
        layer.input_layernorm.weight.data_ptr(),
        layer.post_attention_layernorm.weight.data_ptr(),
        cache.data_ptr(),
    ]
    for packed in map(_packed, _linears(layer)):
        described += packed.fields
    return described
