"""The decoder: one network for all families of `model_config.py`, with switches for what differs.

Its input is a flattened (ragged) batch, `[num_tokens, hidden_size]`: the tokens of all sequences
one after another, without padding. Tokens interact only in attention, which the caller passes in as
a function, so the decoder works with any cache and any backend.

In float32, the tokens must equal those of `transformers`, so the operations are in the same order.

Source: transformers 5, `models/{llama,qwen3,smollm3,...}/modeling_*.py`; vLLM
`vllm/model_executor/models/llama.py` (names).
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property

import torch
from torch import nn

from minivllm.config import LinearBackendName
from minivllm.errors import ModelIntegrityError
from minivllm.runtime.model.custom_ops import TORCH_OPS, DecoderOps
from minivllm.runtime.model.linear_backend import Matrix, activation_dtype, choose_linear_backend
from minivllm.runtime.model.model_config import LongRopeScaling, ModelConfig
from minivllm.runtime.model.weight_map import (
    is_redundant,
    qk_norm_sizes,
    split_experts,
    weight_shards,
)
from minivllm.runtime.quantization.stored_weight import (
    CheckpointWeight,
    StoredWeight,
    in_row_order,
    plain_weight,
)

CosSin = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines of the tokens' positions, as in `minivllm.kernels.reference_ops.rotate`."""
Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor, CosSin], torch.Tensor]
"""(layer, q, k, v, cos_sin) -> [num_tokens, num_heads, head_size]; it rotates q and k itself.

q: [num_tokens, num_heads, head_size]; k, v: [num_tokens, num_kv_heads, head_size]
"""


ROUTED_AT_ONCE = 1 << 22
"""Products that a router computes at once: 16 MiB."""


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
        inv_freq = _inverse_frequencies(config)  # [rotary_size / 2], float32
        factors = torch.ones(config.head_size // 2)
        if isinstance(config.rope_scaling, LongRopeScaling):
            factors[: len(inv_freq)] = config.rope_scaling.attention_factor
        if config.attention_multiplier is not None:
            # The backends divide q @ k by sqrt(head_size). Undo it, half in q and half in k.
            factors *= math.sqrt(config.attention_multiplier * math.sqrt(config.head_size))
        # A pair that is not rotated has an angle of 0.
        inv_freq = nn.functional.pad(inv_freq, (0, len(factors) - len(inv_freq)))
        self._inv_freq = inv_freq.to(device)  # [head_size / 2]
        self._factors = None if (factors == 1).all() else factors.to(device)

    def cos_sin(self, positions: torch.Tensor, dtype: torch.dtype) -> CosSin:
        """Return cosines and sines for all layers of a step.

        positions: [num_tokens] -> two tensors [num_tokens, 1, head_size]

        Angles are float32 for every model dtype: bfloat16 cannot represent position 257.
        """
        # Leave a gap after each row. On contiguous memory, MKL uses all its threads even for a few
        # hundred cosines, and they then spin for milliseconds on cores that the decode step needs.
        angles = self._inv_freq.new_empty(len(positions), len(self._inv_freq) + 1)[:, :-1]
        torch.mul(positions.float().unsqueeze(-1), self._inv_freq, out=angles)
        cos, sin = angles.cos(), angles.sin()
        if self._factors is not None:
            cos, sin = cos * self._factors, sin * self._factors
        # Put the minus sign of the first half into the table: then a rotation needs no negation.
        cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)
        return cos.to(dtype).unsqueeze(1), sin.to(dtype).unsqueeze(1)


def _inverse_frequencies(config: ModelConfig) -> torch.Tensor:
    """Return the radians per position of each pair that is rotated: [rotary_size / 2]."""
    exponents = torch.arange(0, config.rotary_size, 2, dtype=torch.float32) / config.rotary_size
    base, scaling = config.rope_theta**exponents, config.rope_scaling
    if isinstance(scaling, LongRopeScaling):
        return 1.0 / (torch.tensor(scaling.divisors) * base)
    inv_freq = 1.0 / base
    if scaling is None:
        return inv_freq
    # Llama 3: a slow pair did not complete a full turn in training, so its frequency is divided by
    # the factor (interpolation). A fast pair keeps its frequency. In between, both are blended.
    turns_in_training = scaling.original_max_position_embeddings * inv_freq / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    blend = ((turns_in_training - low) / (high - low)).clamp(0.0, 1.0)
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
        self.norm_shape = (-1,) if config.qk_norm == "all_heads" else (-1, self.head_size)
        self.q_norm = self.k_norm = None
        if config.qk_norm is not None:
            sizes, eps = qk_norm_sizes(config), config.rms_norm_eps
            self.q_norm, self.k_norm = (RMSNorm(size, eps) for size in sizes)

    def forward(self, x: torch.Tensor, cos_sin: CosSin, attend: Attend) -> torch.Tensor:
        """x: [num_tokens, hidden_size] -> the same shape"""
        qkv = self.qkv_proj(x).view(x.shape[0], -1, self.head_size)
        q, k, v = qkv.split((self.num_heads, self.num_kv_heads, self.num_kv_heads), dim=1)
        if self.q_norm is not None and self.k_norm is not None:
            rows = (len(x), *self.norm_shape)
            q, k = (
                norm(heads.reshape(rows)).view(heads.shape)
                for norm, heads in ((self.q_norm, q), (self.k_norm, k))
            )
        attended = attend(self.layer, q, k, v, cos_sin)
        return self.o_proj(attended.reshape(x.shape[0], -1))


class MLP(nn.Module):
    """down(act(gate(x)) * up(x))"""

    def __init__(self, config: ModelConfig, width: int) -> None:
        super().__init__()
        self.gate_up_proj = Linear(2 * width)
        self.down_proj = Linear(config.hidden_size)
        self.is_gelu = config.hidden_act == "gelu_pytorch_tanh"

    def forward(self, x: torch.Tensor, ops: DecoderOps) -> torch.Tensor:
        """x: [num_tokens, hidden_size] -> the same shape"""
        act_and_mul = ops.gelu_tanh_and_mul if self.is_gelu else ops.silu_and_mul
        return self.down_proj(act_and_mul(self.gate_up_proj(x)))


class ExpertRouter(nn.Module):
    """Chooses the experts of each token. Its weight is [num_experts, hidden_size]."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.num_experts), requires_grad=False)
        self.top_k, self.norm_topk_prob = config.num_experts_per_tok, config.norm_topk_prob

    def forward(
        self, x: torch.Tensor, ops: DecoderOps = TORCH_OPS
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """x: [num_tokens, hidden_size] -> shares and numbers of experts, both [num_tokens, top_k]

        Each row is summed up by itself, in float32. A product of matrices rounds as the size of the
        batch wants it, and a last bit can choose another expert.
        """
        if ops.fused_topk is not None:
            return ops.fused_topk(x, self.weight, self.top_k, self.norm_topk_prob)
        at_once = max(1, ROUTED_AT_ONCE // self.weight.numel())
        weight = self.weight.float()
        logits = [
            (rows.float().unsqueeze(1) * weight).sum(-1)  # [num_rows, num_experts]
            for rows in x.split(at_once)
        ]
        shares, experts = torch.cat(logits).softmax(-1).topk(self.top_k)
        if self.norm_topk_prob:
            shares = shares / shares.sum(-1, keepdim=True)
        # In the order of experts, as transformers adds their results.
        experts, order = experts.sort()
        return shares.gather(1, order).to(x.dtype), experts


class Experts(nn.Module):
    """A mixture of experts: each token goes through `top_k` MLPs of many, chosen by the router.

    The tokens of one expert run together, so that a step reads its weights once. This is why
    memory, and not arithmetic, is the price of a large batch: soon every expert has a token.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.moe_intermediate_size or config.intermediate_size
        self.gate = ExpertRouter(config)
        self.experts = nn.ModuleList(MLP(config, width) for _ in range(config.num_experts))

    def forward(self, x: torch.Tensor, ops: DecoderOps) -> torch.Tensor:
        """x: [num_tokens, hidden_size] -> the same shape"""
        shares, experts = self.gate(x, ops)
        if ops.fused_experts is not None:
            gate_up = self.experts[0].gate_up_proj.matrix
            return ops.fused_experts(x, shares, experts, self.table, gate_up)
        num_tokens, top_k = experts.shape
        # Pairs of token and expert, sorted by expert: each expert's are one contiguous slice.
        by_expert = experts.flatten().argsort(stable=True)
        counts = experts.flatten().bincount(minlength=len(self.experts)).tolist()
        results = x.new_empty(num_tokens * top_k, x.shape[1])
        first = 0
        for expert, count in zip(self.experts, counts, strict=True):
            if count:
                pairs = by_expert[first : first + count]
                results[pairs] = expert(x[pairs // top_k], ops)
                first += count
        results = results.view(num_tokens, top_k, -1) * shares.unsqueeze(-1)
        return results.sum(1)

    @cached_property
    def table(self) -> torch.Tensor:
        """[num_experts, n] int64: the addresses of both matrices of each expert."""
        mlps = [(mlp.gate_up_proj.matrix, mlp.down_proj.matrix) for mlp in self.experts]
        rows = [[*gate_up.addresses, *down.addresses] for gate_up, down in mlps]
        return torch.tensor(rows, device=self.gate.weight.device)


class DecoderLayer(nn.Module):
    """Attention and MLP, with norms before them (as in Llama), after them, or both."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()

        def norm(exists: bool) -> RMSNorm | None:
            return RMSNorm(config.hidden_size, config.rms_norm_eps) if exists else None

        before, after = (config.norm_position in (side, "around") for side in ("before", "after"))
        self.residual_multiplier = config.residual_multiplier
        self.input_layernorm = norm(before)
        self.self_attn = Attention(config, layer)
        self.attention_output_norm = norm(after)
        self.post_attention_layernorm = norm(before)
        if config.has_experts(layer):
            self.mlp = Experts(config)
        else:
            self.mlp = MLP(config, config.intermediate_size)
        self.mlp_output_norm = norm(after)

    def forward(
        self,
        x: torch.Tensor | None,
        hidden: torch.Tensor,
        cos_sin: CosSin,
        attend: Attend,
        ops: DecoderOps,
    ) -> torch.Tensor:
        """Run one layer. First, each block adds the result of the block before it to `hidden`.

        hidden: [num_tokens, hidden_size], changed in place
        x: [num_tokens, hidden_size], the previous layer's result, not yet added to `hidden`; None
            for the first layer

        Returns this layer's result, [num_tokens, hidden_size], not yet added to `hidden`.
        """
        x = _add_and_norm(self.input_layernorm, x, hidden, ops)
        x = self.self_attn(x, cos_sin, attend)
        x = self._finish(x, self.attention_output_norm, ops)
        x = _add_and_norm(self.post_attention_layernorm, x, hidden, ops)
        x = self.mlp(x, ops)
        return self._finish(x, self.mlp_output_norm, ops)

    def _finish(self, x: torch.Tensor, norm: RMSNorm | None, ops: DecoderOps) -> torch.Tensor:
        x = x if norm is None else norm(x, ops=ops)
        return x if self.residual_multiplier == 1 else x * self.residual_multiplier


def _add_and_norm(
    norm: RMSNorm | None, x: torch.Tensor | None, hidden: torch.Tensor, ops: DecoderOps
) -> torch.Tensor:
    """Add x to `hidden`, in place, and return the sum, normalized if there is a norm."""
    if norm is not None:
        return norm(hidden, ops=ops) if x is None else norm(x, hidden, ops)
    return hidden if x is None else hidden.add_(x)


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
        self.rotary = self.local_rotary = RotaryEmbedding(config, self.device)
        if config.rope_local_base_freq is not None:
            local = replace(config, rope_theta=config.rope_local_base_freq, rope_scaling=None)
            self.local_rotary = RotaryEmbedding(local, self.device)
        self.embedding_multiplier = config.embedding_multiplier
        if config.scaled_embedding:
            root = torch.tensor(config.hidden_size**0.5, dtype=dtype)
            self.embedding_multiplier = root.item()

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
        angles = [cos_sin] * len(self.layers)
        if self.config.unrotated_layers:
            unrotated = self.rotary.cos_sin(torch.zeros_like(positions), self.dtype)
            for i in self.config.unrotated_layers:
                angles[i] = unrotated
        if self.local_rotary is not self.rotary:
            local = self.local_rotary.cos_sin(positions, self.dtype)
            for i in self.config.sliding_layers:
                angles[i] = local
        hidden, x = self.embed(token_ids), None
        for layer, cos_sin in zip(self.layers, angles, strict=True):
            x = layer(x, hidden, cos_sin, attend, ops)
        return hidden.add_(x)

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """token_ids: [num_tokens] -> the first hidden states [num_tokens, hidden_size]"""
        hidden = self.embed_tokens(token_ids)
        factor = self.embedding_multiplier
        return hidden if factor == 1 else hidden * factor

    def compute_logits(self, hidden: torch.Tensor, ops: DecoderOps = TORCH_OPS) -> torch.Tensor:
        """hidden: [num_rows, hidden_size] -> logits [num_rows, vocab_size] in float32"""
        hidden = self.norm(hidden, ops=ops)
        head = self.embed_tokens if self.lm_head is None else self.lm_head
        logits = head.matrix.multiply(hidden).float()
        return logits if self.config.logits_scaling == 1 else logits / self.config.logits_scaling

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
        for name, weight in split_experts(weights):
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
            parts[shard.first_row] = in_row_order(weight, shard.row_order)
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
            is_read = isinstance(module, Embedding) or ".experts." in parameter
            module.matrix = self.make_matrix(weight, is_read)
        else:
            plain = [  # a router may be stored in another format
                plain_weight([part], torch.float32, self.device)
                if isinstance(part, StoredWeight)
                else part
                for part in parts
            ]
            data = torch.cat(plain).to(self.device, self.dtype)
            if self.config.norm_adds_one and "norm" in parameter:
                data = torch.cat(plain).to(self.device, torch.float32) + 1
            self.stored_bytes += sum(part.nbytes for part in plain)
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
        """Bytes of weights that a step reads to decode one token: of experts, those it takes."""
        idle = sum(
            matrix.num_bytes * (len(module.experts) - module.gate.top_k) // len(module.experts)
            for module in self.modules()
            if isinstance(module, Experts)
            for expert in module.experts
            for matrix in (expert.gate_up_proj.matrix, expert.down_proj.matrix)
        )
        return self.weight_bytes - self.lookup_bytes - idle


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
