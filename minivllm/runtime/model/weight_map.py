"""Where each tensor of a Hugging Face checkpoint goes in our decoder, by name and shape.

q, k and v become the rows of one matrix, and gate and up the rows of another, because one large
multiplication is faster than several small ones. `decoder.py` splits the product in the same order.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from minivllm.runtime.model.model_config import ModelConfig
from minivllm.runtime.quantization.stored_weight import CheckpointWeight

_GRANITE = {"input_linear.weight": ("gate_proj", "up_proj"), "output_linear.weight": ("down_proj",)}


@dataclass(frozen=True, slots=True)
class Shard:
    """The rows of a parameter that a checkpoint tensor fills."""

    parameter: str
    shape: tuple[int, ...]
    first_row: int = 0
    row_order: torch.Tensor | None = None
    """Which row of the tensor is our row 0, 1, ...; None: as they are."""


def weight_shards(config: ModelConfig) -> dict[str, Shard]:
    """Return Hugging Face name -> shard, for every tensor that the checkpoint must have."""
    hidden, inner = config.hidden_size, config.intermediate_size
    q_size, kv_size = _head_rows(config)
    orders = _row_orders(config)
    shards: dict[str, Shard] = {}

    def add(parameter: str, *shape: int, theirs: str = "", **rows: Any) -> None:
        """theirs: Hugging Face's name, if it is not ours with `model.` before it; rows: of `Shard`"""
        shards[theirs or f"model.{parameter}"] = Shard(parameter, shape, **rows)

    def add_rows(block: str, ours: str, sizes: dict[str, int], bias: bool) -> None:
        """Add projections of the hidden state: name -> rows, one after another in one matrix."""
        if ours in config.fused_projections:
            sizes = {ours: sum(sizes.values())}
        first_row = 0
        for name, size in sizes.items():
            theirs, parameter = f"model.{block}.{name}", f"{block}.{ours}"
            rows = {"first_row": first_row, "row_order": orders.get(name)}
            add(f"{parameter}.weight", size, hidden, theirs=f"{theirs}.weight", **rows)
            if bias:
                add(f"{parameter}.bias", size, theirs=f"{theirs}.bias", **rows)
            first_row += size

    def add_norms(layer: str, norms: list[tuple[str, str]]) -> None:
        for theirs, ours in norms:
            add(f"{layer}.{ours}.weight", hidden, theirs=f"model.{layer}.{theirs}.weight")

    def add_mlp(block: str, width: int) -> None:
        add_rows(block, "gate_up_proj", {"gate_proj": width, "up_proj": width}, False)
        add(f"{block}.down_proj.weight", hidden, width)

    add("embed_tokens.weight", config.vocab_size, hidden)
    for i in range(config.num_hidden_layers):
        layer, attention, mlp = f"layers.{i}", f"layers.{i}.self_attn", f"layers.{i}.mlp"
        # The order of the names is that in which `tiny-random` draws its weights: it stays.
        norms = list(_norms(config).items())
        add_norms(layer, norms[: len(norms) // 2])
        qkv = {"q_proj": q_size, "k_proj": kv_size, "v_proj": kv_size}
        add_rows(attention, "qkv_proj", qkv, config.attention_bias)
        add(f"{attention}.o_proj.weight", hidden, q_size)
        if config.attention_output_bias:
            add(f"{attention}.o_proj.bias", hidden)
        if config.qk_norm is not None:
            for norm, size in zip(("q_norm", "k_norm"), qk_norm_sizes(config), strict=True):
                add(f"{attention}.{norm}.weight", size)
        add_norms(layer, norms[len(norms) // 2 :])
        if not config.has_experts(i):
            add_mlp(mlp, inner)
            continue
        add(f"{mlp}.gate.weight", config.num_experts, hidden)
        for expert in range(config.num_experts):
            add_mlp(f"{mlp}.experts.{expert}", config.moe_intermediate_size or inner)
    add("norm.weight", hidden)
    if not config.tie_word_embeddings:
        add("lm_head.weight", config.vocab_size, hidden, theirs="lm_head.weight")
    return shards


def _norms(config: ModelConfig) -> dict[str, str]:
    """Return Hugging Face's name of each norm of a layer -> ours.

    Their "post_attention_layernorm" is the norm before the MLP, or one after attention.
    """
    before = {"input_layernorm": "input_layernorm"}
    after = {"post_attention_layernorm": "attention_output_norm"}
    output = {"post_feedforward_layernorm": "mlp_output_norm"}
    if config.norm_position == "after":
        return after | output
    if config.norm_position == "around":
        return before | after | {"pre_feedforward_layernorm": "post_attention_layernorm"} | output
    return before | {"post_attention_layernorm": "post_attention_layernorm"}


def split_experts(
    weights: Iterable[tuple[str, CheckpointWeight]],
) -> Iterator[tuple[str, CheckpointWeight]]:
    """Yield a checkpoint's weights with a matrix for each expert, under Qwen's names.

    Granite stores a layer's experts in two tensors: [num_experts, 2 * width, hidden_size], with
    gate before up, and [num_experts, hidden_size, width]. Granite 4 does so with its one MLP.
    """
    for name, weight in weights:
        name = name.replace("shared_mlp.input_linear", "mlp.gate_up_proj")
        name = name.replace("shared_mlp.output_linear", "mlp.down_proj")
        layer, _, module = name.partition(".block_sparse_moe.")
        names = _GRANITE.get(module)
        if module == "router.layer.weight":
            yield f"{layer}.mlp.gate.weight", weight
        elif names is None or not isinstance(weight, torch.Tensor) or weight.dim() != 3:
            yield name, weight
        else:
            for expert, matrix in enumerate(weight):
                for part, rows in zip(names, matrix.tensor_split(len(names)), strict=True):
                    yield f"{layer}.mlp.experts.{expert}.{part}.weight", rows


def qk_norm_sizes(config: ModelConfig) -> tuple[int, int]:
    """Return how many features of the queries, and of the keys, are normalized together."""
    if config.qk_norm == "each_head":
        return config.head_size, config.head_size
    return _head_rows(config)


def _head_rows(config: ModelConfig) -> tuple[int, int]:
    """Return the rows of the query projection, and of the key or value projection."""
    size = config.head_size
    return config.num_attention_heads * size, config.num_key_value_heads * size


def _row_orders(config: ModelConfig) -> dict[str, torch.Tensor]:
    """Return the orders of the rows of projections whose checkpoint rotates other pairs than we do.

    We rotate feature i of a head with feature i + head_size/2. A product of queries and keys does
    not depend on the order of features, as long as both have the same, so we reorder both once:

        interleaved, 0 with 1, 2 with 3:                0 2 1 3
        the first 4 of 8 are rotated, 0 with 2:         0 1 4 5  2 3 6 7
    """
    size, rotated = config.head_size, config.rotary_size
    if not config.interleaved_rotation and rotated == size:
        return {}
    features = torch.arange(size)
    pairs, rest = features[:rotated].view(2, -1), features[rotated:].view(2, -1)
    if config.interleaved_rotation:
        pairs = features[:rotated].view(-1, 2).T
    head = torch.cat((pairs, rest), dim=1).flatten()

    def order(num_heads: int) -> torch.Tensor:
        return (torch.arange(num_heads).unsqueeze(1) * size + head).flatten()

    q, kv = config.num_attention_heads, config.num_key_value_heads
    values = torch.arange((q + kv) * size, (q + 2 * kv) * size)
    # Of a fused matrix, the query and key heads come first.
    fused = torch.cat((order(q + kv), values))
    return {"q_proj": order(q), "k_proj": order(kv), "qkv_proj": fused}


def is_redundant(name: str, config: ModelConfig) -> bool:
    """Whether some checkpoints contain this tensor although it follows from the others."""
    return name.endswith("rotary_emb.inv_freq") or (
        config.tie_word_embeddings and name == "lm_head.weight"
    )
