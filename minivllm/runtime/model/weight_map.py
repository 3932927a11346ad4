"""Where each tensor of a Hugging Face checkpoint goes in our decoder, by name and shape.

q, k and v become the rows of one matrix, and gate and up the rows of another, because one large
multiplication is faster than several small ones. `decoder.py` splits the product in the same order.
"""

from dataclasses import dataclass

from minivllm.runtime.model.model_config import ModelConfig


@dataclass(frozen=True, slots=True)
class Shard:
    """The rows of a parameter that a checkpoint tensor fills."""

    parameter: str
    first_row: int
    shape: tuple[int, ...]


def weight_shards(config: ModelConfig) -> dict[str, Shard]:
    """Return Hugging Face name -> shard, for every tensor that the checkpoint must have."""
    hidden, inner = config.hidden_size, config.intermediate_size
    q_size = config.num_attention_heads * config.head_size
    kv_size = config.num_key_value_heads * config.head_size
    shards: dict[str, Shard] = {}

    def add(parameter: str, *shape: int, theirs: str = "", first_row: int = 0) -> None:
        """theirs: Hugging Face's name, if it is not ours with `model.` before it"""
        shards[theirs or f"model.{parameter}"] = Shard(parameter, first_row, shape)

    def add_rows(block: str, ours: str, sizes: dict[str, int], bias: bool) -> None:
        """Add projections of the hidden state: name -> rows, one after another in one matrix."""
        first_row = 0
        for name, size in sizes.items():
            theirs, parameter = f"model.{block}.{name}", f"{block}.{ours}"
            add(f"{parameter}.weight", size, hidden, theirs=f"{theirs}.weight", first_row=first_row)
            if bias:
                add(f"{parameter}.bias", size, theirs=f"{theirs}.bias", first_row=first_row)
            first_row += size

    add("embed_tokens.weight", config.vocab_size, hidden)
    for i in range(config.num_hidden_layers):
        layer, attention, mlp = f"layers.{i}", f"layers.{i}.self_attn", f"layers.{i}.mlp"
        add(f"{layer}.input_layernorm.weight", hidden)
        qkv = {"q_proj": q_size, "k_proj": kv_size, "v_proj": kv_size}
        add_rows(attention, "qkv_proj", qkv, config.attention_bias)
        add(f"{attention}.o_proj.weight", hidden, q_size)
        if config.attention_output_bias:
            add(f"{attention}.o_proj.bias", hidden)
        for norm in ("q_norm", "k_norm") if config.qk_norm else ():
            add(f"{attention}.{norm}.weight", config.head_size)
        add(f"{layer}.post_attention_layernorm.weight", hidden)
        add_rows(mlp, "gate_up_proj", {"gate_proj": inner, "up_proj": inner}, False)
        add(f"{mlp}.down_proj.weight", hidden, inner)
    add("norm.weight", hidden)
    if not config.tie_word_embeddings:
        add("lm_head.weight", config.vocab_size, hidden, theirs="lm_head.weight")
    return shards


def is_redundant(name: str, config: ModelConfig) -> bool:
    """Whether some checkpoints contain this tensor although it follows from the others."""
    return name.endswith("rotary_emb.inv_freq") or (
        config.tie_word_embeddings and name == "lm_head.weight"
    )
