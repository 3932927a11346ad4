"""The decoder: one network for Llama, Qwen2 and Qwen3, with switches for biases and `qk_norm`.

Its input is a flattened (ragged) batch, `[num_tokens, hidden_size]`: the tokens of all sequences
one after another, without padding. Tokens interact only in attention, which the caller passes in as
a function, so the decoder works with any cache and any backend.

In float32, the tokens must equal those of `transformers`, so the operations are in the same order.

Source: transformers 5, `models/llama/modeling_llama.py`; vLLM `vllm/model_executor/models/llama.py`
(names).
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import nn

from minivllm.config import LinearBackendName
from minivllm.errors import ModelIntegrityError
from minivllm.runtime.model.custom_ops import TORCH_OPS, DecoderOps
from minivllm.runtime.model.linear_backend import Matrix, activation_dtype, choose_linear_backend
from minivllm.runtime.model.model_config import ModelConfig
from minivllm.runtime.model.weight_map import is_redundant, weight_shards
from minivllm.runtime.quantization.stored_weight import CheckpointWeight, StoredWeight, plain_weight

CosSin = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines of the tokens' positions, as in `minivllm.kernels.reference_ops.rotate`."""
Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor, CosSin], torch.Tensor]
"""(layer, q, k, v, cos_sin) -> [num_tokens, num_heads, head_size]; it rotates q and k itself.

q: [num_tokens, num_heads, head_size]; k, v: [num_tokens, num_kv_heads, head_size]
"""


class Linear(nn.Module):
    """y = x @ weight.T + bias. The decoder sets `matrix` when the weight is loaded."""

    def __init__(self, out_features: int, bias: bool = False) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.empty(out_features), requires_grad=False) if bias else None
        self.matrix: Matrix | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [num_tokens, in_features] -> [num_tokens, out_features]"""
        return self.matrix.multiply(x, self.bias)


class Embedding(nn.Module):
    """The table of token embeddings; with tied embeddings it is also the LM head.

    The decoder sets `matrix` when the weight is loaded.
    """

    def __init__(self) -> None:
        super().__init__()
        self.matrix: Matrix | None = None

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        """token_ids: [num_tokens] -> [num_tokens, hidden_size]"""
        return self.matrix.rows(token_ids)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight, over the last dimension."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size), requires_grad=False)
        self.eps = eps

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None = None, ops: DecoderOps = TORCH_OPS
    ) -> torch.Tensor:
        """Normalize x: [..., size]; if `residual` is given, normalize x + residual.

        The sum is written to `residual`, which has the same shape as x.
        """
        if residual is None:
            return ops.rms_norm(x, self.weight, self.eps)
        return ops.add_rms_norm(x, residual, self.weight, self.eps)


class RotaryEmbedding:
    """The angles by which attention rotates each pair (x[i], x[i + head_size / 2]) of a head.

    The angle grows with the token's position. A pair has one element from each half, as Hugging
    Face's checkpoints require ("rotate half").
    """

    def __init__(self, config: ModelConfig, device: torch.device) -> None:
        self._inv_freq = _inverse_frequencies(config).to(device)  # [head_size / 2], float32

    def cos_sin(
        self, positions: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return cosines and sines for all layers of a step.

        positions: [num_tokens] -> two tensors [num_tokens, 1, head_size]

        Angles are float32 for every model dtype: bfloat16 cannot represent position 257.
        """
        # Leave a gap after each row. On contiguous memory, MKL uses all its threads even for a few
        # hundred cosines, and they then spin for milliseconds on cores that the decode step needs.
        angles = self._inv_freq.new_empty(len(positions), len(self._inv_freq) + 1)[:, :-1]
        torch.mul(positions.float().unsqueeze(-1), self._inv_freq, out=angles)
        cos, sin = angles.cos(), angles.sin()
        # Put the minus sign of the first half into the table: then a rotation needs no negation.
        cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)
        return cos.to(dtype).unsqueeze(1), sin.to(dtype).unsqueeze(1)


def _inverse_frequencies(config: ModelConfig) -> torch.Tensor:
    """Return the radians per position of each pair: [head_size / 2]."""
    exponents = torch.arange(0, config.head_size, 2, dtype=torch.float32) / config.head_size
    inv_freq = 1.0 / (config.rope_theta**exponents)
    scaling = config.rope_scaling
    if scaling is None:
        return inv_freq
    # Llama 3: a slow pair did not complete a full turn in training, so its frequency is divided by
    # the factor (interpolation). A fast pair keeps its frequency. In between, both are blended.
    turns_in_training = scaling.original_max_position_embeddings * inv_freq / (2 * math.pi)
    blend = (turns_in_training - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    blend = blend.clamp(0.0, 1.0)
    return (1 - blend) * inv_freq / scaling.factor + blend * inv_freq


class Attention(nn.Module):
    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.num_heads = config.num_attention_heads
        self.num_kv_heads = config.num_key_value_heads
        self.head_size = config.head_size
        num_all_heads = self.num_heads + 2 * self.num_kv_heads
        self.qkv_proj = Linear(num_all_heads * self.head_size, bias=config.attention_bias)
        self.o_proj = Linear(config.hidden_size, bias=config.attention_output_bias)
        self.q_norm = RMSNorm(self.head_size, config.rms_norm_eps) if config.qk_norm else None
        self.k_norm = RMSNorm(self.head_size, config.rms_norm_eps) if config.qk_norm else None

    def forward(self, x: torch.Tensor, cos_sin: CosSin, attend: Attend) -> torch.Tensor:
        """x: [num_tokens, hidden_size] -> the same shape"""
        qkv = self.qkv_proj(x).view(x.shape[0], -1, self.head_size)
        q, k, v = qkv.split((self.num_heads, self.num_kv_heads, self.num_kv_heads), dim=1)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        attended = attend(self.layer, q, k, v, cos_sin)
        return self.o_proj(attended.reshape(x.shape[0], -1))


class MLP(nn.Module):
    """down(silu(gate(x)) * up(x))"""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_up_proj = Linear(2 * config.intermediate_size)
        self.down_proj = Linear(config.hidden_size)

    def forward(self, x: torch.Tensor, ops: DecoderOps) -> torch.Tensor:
        """x: [num_tokens, hidden_size] -> the same shape"""
        return self.down_proj(ops.silu_and_mul(self.gate_up_proj(x)))


class DecoderLayer(nn.Module):
    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, layer)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(
        self,
        x: torch.Tensor | None,
        hidden: torch.Tensor,
        cos_sin: CosSin,
        attend: Attend,
        ops: DecoderOps,
    ) -> torch.Tensor:
        """Run one layer. Each norm first adds the result of the block before it to `hidden`.

        hidden: [num_tokens, hidden_size], changed in place
        x: [num_tokens, hidden_size], the previous layer's result, not yet added to `hidden`; None
            for the first layer

        Returns this layer's result, [num_tokens, hidden_size], not yet added to `hidden`.
        """
        norm = self.input_layernorm
        x = norm(hidden, ops=ops) if x is None else norm(x, hidden, ops)
        x = self.self_attn(x, cos_sin, attend)
        x = self.post_attention_layernorm(x, hidden, ops)
        return self.mlp(x, ops)


class Decoder(nn.Module):
    """A causal language model without a KV cache. Load weights into it before use."""

    def __init__(
        self,
        config: ModelConfig,
        dtype: torch.dtype,
        device: torch.device | str,
        linear_backend: LinearBackendName = "auto",
    ) -> None:
        super().__init__()
        self.config = config
        self.weight_dtype = dtype
        self.dtype = activation_dtype(dtype, torch.device(device))
        """The dtype of everything but the matrices."""
        self.stored_bytes = 0
        """Bytes of the loaded weights in their stored formats."""
        self.device = torch.device(device)
        self.make_matrix = choose_linear_backend(linear_backend, dtype, self.device)
        # On the meta device, a parameter has no memory until its weight is loaded.
        with torch.device("meta"):
            self.embed_tokens = Embedding()
            self.layers = nn.ModuleList(
                DecoderLayer(config, i) for i in range(config.num_hidden_layers)
            )
            self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
            self.lm_head = None if config.tie_word_embeddings else Linear(config.vocab_size)
        self.rotary = RotaryEmbedding(config, self.device)

    def forward(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        attend: Attend,
        ops: DecoderOps = TORCH_OPS,
    ) -> torch.Tensor:
        """Compute the hidden states before the last norm.

        token_ids, positions: [num_tokens] -> [num_tokens, hidden_size]
        """
        cos_sin = self.rotary.cos_sin(positions, self.dtype)
        hidden, x = self.embed_tokens(token_ids), None
        for layer in self.layers:
            x = layer(x, hidden, cos_sin, attend, ops)
        return hidden.add_(x)

    def compute_logits(self, hidden: torch.Tensor, ops: DecoderOps = TORCH_OPS) -> torch.Tensor:
        """hidden: [num_rows, hidden_size] -> logits [num_rows, vocab_size] in float32"""
        hidden = self.norm(hidden, ops=ops)
        head = self.embed_tokens if self.lm_head is None else self.lm_head
        return head.matrix.multiply(hidden).float()

    # ---- loading ----

    def load_weights(self, weights: Iterable[tuple[str, CheckpointWeight]]) -> None:
        """Load a checkpoint's weights, in any order, by their Hugging Face names.

        A matrix is laid out as soon as its parts are complete, each part in its own format. So the
        peak memory is one copy of the weights, and one matrix. Raises `ModelIntegrityError` for a
        tensor that is missing, unexpected, of the wrong shape or damaged.
        """
        waiting_for = weight_shards(self.config)
        shards_left = Counter(shard.parameter for shard in waiting_for.values())
        waiting: dict[str, dict[int, CheckpointWeight]] = {}
        for name, weight in weights:
            if is_redundant(name, self.config):
                continue
            shard = waiting_for.pop(name, None)
            if shard is None:
                raise ModelIntegrityError(
                    f"The checkpoint has a tensor {name!r:.100} that the architecture"
                    f" {self.config.architecture} in config.json does not have, or has it twice;"
                    " check that both files belong to the same model."
                )
            if _shape(weight) != shard.shape:
                raise ModelIntegrityError(
                    f"Tensor {name} has shape {list(_shape(weight))} but config.json requires"
                    f" {list(shard.shape)}; check that both files belong to the same model."
                )
            parts = waiting.setdefault(shard.parameter, {})
            parts[shard.first_row] = weight
            if len(parts) == shards_left[shard.parameter]:
                del waiting[shard.parameter]
                self._set_parameter(shard.parameter, [parts[row] for row in sorted(parts)])
        if waiting_for:
            names = list(waiting_for)
            others = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise ModelIntegrityError(
                f"The checkpoint lacks {', '.join(names[:3])}{others}; it is incomplete, download"
                " it again."
            )

    def _set_parameter(self, parameter: str, parts: list[CheckpointWeight]) -> None:
        """parts: in the order of the parameter's rows"""
        module_name, _, name = parameter.rpartition(".")
        module = self.get_submodule(module_name)
        if name == "weight" and isinstance(module, Linear | Embedding):
            stored = [_as_stored(part) for part in parts]
            self.stored_bytes += sum(part.num_bytes for part in stored)
            # Only the CPU's own layouts read stored weights, and they compute in float32.
            is_plain = self.weight_dtype != torch.float32 or self.device.type != "cpu"
            weight = plain_weight(stored, self.weight_dtype, self.device) if is_plain else stored
            module.matrix = self.make_matrix(weight, isinstance(module, Embedding))
        else:
            data = torch.cat(parts).to(self.device, self.dtype)
            self.stored_bytes += sum(part.nbytes for part in parts)
            setattr(module, name, nn.Parameter(data, requires_grad=False))

    @property
    def weight_bytes(self) -> int:
        """Memory of all weights; one table that serves as embedding and LM head counts once."""
        matrices = (module.matrix for module in self.modules() if hasattr(module, "matrix"))
        return sum(matrix.num_bytes for matrix in matrices) + sum(
            parameter.nbytes for parameter in self.parameters()
        )

    @property
    def lookup_bytes(self) -> int:
        """Memory of an embedding table that is not also the LM head: a step reads a few rows."""
        return 0 if self.lm_head is None else self.embed_tokens.matrix.num_bytes

    @property
    def bytes_per_token(self) -> int:
        """Bytes of weights that a step reads to decode one token."""
        return self.weight_bytes - self.lookup_bytes


def _shape(weight: CheckpointWeight) -> tuple[int, ...]:
    if isinstance(weight, StoredWeight):
        return (weight.num_rows, weight.in_features)
    return tuple(weight.shape)


def _as_stored(weight: CheckpointWeight) -> StoredWeight:
    if isinstance(weight, StoredWeight):
        return weight
    return StoredWeight.of_tensor(weight.float() if weight.dtype is torch.float64 else weight)


def random_weights(config: ModelConfig, seed: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (Hugging Face name, float32 CPU tensor) for all weights, random but fixed by `seed`."""
    generator = torch.Generator().manual_seed(seed)
    for name, shard in weight_shards(config).items():
        if "norm" in name:
            yield name, torch.ones(shard.shape)
        else:  # with the usual standard deviation at the start of training
            yield name, torch.randn(shard.shape, generator=generator) * 0.02
