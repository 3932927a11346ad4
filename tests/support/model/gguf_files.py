"""Small GGUF files for tests, written with llama.cpp's own library."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import MODEL_ARCH, GGMLQuantizationType, GGUFWriter, get_tensor_name_map
from gguf.quants import quantize
from tokenizers import pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig

from support.model.tiny_models import GRANITE_FACTORS, checkpoint_of

ARCHITECTURES = [
    "llama", "qwen2", "qwen3", "smollm3", "granite", "phi3", "olmo2", "ernie4_5", "gemma3",
    "qwen3moe", "olmoe", "granitemoe",
]  # fmt: skip
HEADS, KV_HEADS, HEAD_SIZE, HIDDEN, MLP, LAYERS = 4, 2, 16, 64, 96, 2
MAX_LENGTH, ORIGINAL_LENGTH, ROPE_THETA, ATTENTION_FACTOR = 512, 256, 5000.0, 1.25
SHORT, LONG = [1.0, 1.5, 2.0, 3.0], [1.0, 2.0, 8.0, 30.0]
"""Divisors of Phi-4-mini's frequencies: half of a head is rotated."""
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
_HF_KEYS = {
    "smollm3": {"num_hidden_layers": 4},  # every fourth layer does not rotate
    "granite": GRANITE_FACTORS,
    "granitemoe": GRANITE_FACTORS | _EXPERTS,
    "qwen3moe": _EXPERTS | {"moe_intermediate_size": 32, "norm_topk_prob": True},
    # llama.cpp wants as many heads of keys as of queries
    "olmoe": _EXPERTS | {"num_key_value_heads": HEADS, "eos_token_id": 2},
    "phi3": {
        "rope_parameters": {
            "rope_type": "longrope", "rope_theta": ROPE_THETA, "partial_rotary_factor": 0.5,
            "short_factor": SHORT, "long_factor": LONG, "attention_factor": ATTENTION_FACTOR,
            "original_max_position_embeddings": ORIGINAL_LENGTH,
        },
        "original_max_position_embeddings": ORIGINAL_LENGTH, "bos_token_id": 1, "eos_token_id": 2,
    },
    "olmo2": {"eos_token_id": 2},
    "gemma3": {
        "num_hidden_layers": 7, "sliding_window": 40, "query_pre_attn_scalar": HEAD_SIZE,
        "rope_parameters": {  # every sixth layer sees all
            "full_attention": {"rope_type": "linear", "rope_theta": ROPE_THETA, "factor": 8.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 700.0},
        },
    },
}  # fmt: skip
"""Architecture -> keys of its config that the others lack."""
_SCALES = {
    "embedding_scale": 12.0, "attention.scale": 0.25, "residual_scale": 0.22, "logit_scale": 4.0,
}  # fmt: skip
_METADATA = {
    "granite": {f"granite.{key}": scale for key, scale in _SCALES.items()},
    "granitemoe": {f"granitemoe.{key}": scale for key, scale in _SCALES.items()},
    "qwen3moe": {"qwen3moe.expert_feed_forward_length": 32},
    "olmoe": {"olmoe.attention.head_count_kv": HEADS},
    "phi3": {
        "phi3.rope.dimension_count": HEAD_SIZE // 2, "phi3.attention.sliding_window": MAX_LENGTH,
        "phi3.rope.scaling.attn_factor": ATTENTION_FACTOR,
        "phi3.rope.scaling.original_context_length": ORIGINAL_LENGTH,
    },
    "gemma3": {
        "gemma3.attention.sliding_window": 40, "gemma3.rope.freq_base_swa": 700.0,
        "gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0,
    },
}  # fmt: skip
_TENSORS = {"phi3": {"rope_factors_short.weight": SHORT, "rope_factors_long.weight": LONG}}
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCABULARY = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġa", "12"]
MERGES = ["Ġ a", "1 2"]
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}<|im_start|>"
)


def hf_config(arch: str, tied: bool = False) -> PreTrainedConfig:
    """The tiny model's config, as its safetensors form has it."""
    sizes = {"vocab_size": len(VOCABULARY), "hidden_size": HIDDEN, "intermediate_size": MLP}
    sizes |= {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "head_dim": HEAD_SIZE}
    sizes |= {"num_key_value_heads": KV_HEADS, "max_position_embeddings": MAX_LENGTH}
    others = {"rope_parameters": {"rope_type": "default", "rope_theta": ROPE_THETA}}
    others |= {"rms_norm_eps": 1e-5, "tie_word_embeddings": tied, "pad_token_id": 0}
    name = {"qwen3moe": "qwen3_moe", "gemma3": "gemma3_text"}.get(arch, arch)
    return AutoConfig.for_model(name, **(sizes | others | _HF_KEYS.get(arch, {})))


def hf_weights(arch: str, tied: bool = False) -> dict[str, np.ndarray]:
    """Random weights of a tiny model under Hugging Face names."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(hf_config(arch, tied))
    random = np.random.default_rng(0)
    weights = {
        name: random.standard_normal(weight.shape).astype(np.float32)
        for name, weight in model.named_parameters()
    }
    if "moe" not in arch:
        return weights
    # transformers keeps the experts of a layer in two tensors, under other names than checkpoints
    model.load_state_dict({name: torch.from_numpy(w) for name, w in weights.items()}, assign=True)
    return {name: weight.numpy() for name, weight in checkpoint_of(model).items()}


def _join_experts(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One tensor for all experts, and gate and up apart, as llama.cpp's converter writes them."""
    joined: dict[str, Any] = {}
    for name, weight in weights.items():
        layer, _, module = name.partition(".block_sparse_moe.")
        if module == "input_linear.weight":
            joined[f"{layer}.mlp.experts.gate_proj.weight"], up = np.split(weight, 2, 1)
            joined[f"{layer}.mlp.experts.up_proj.weight"] = up
        elif ".experts." in name:  # in the order of the experts
            joined.setdefault(re.sub(r"experts\.\d+", "experts", name), []).append(weight)
        else:
            joined[name] = weight
    return {name: np.array(weight) for name, weight in joined.items()}


def _gguf_names(hf_names: Iterable[str], arch: str) -> dict[str, str]:
    enum = MODEL_ARCH[arch.upper().replace("GRANITEMOE", "GRANITE_MOE")]
    names = get_tensor_name_map(enum, hf_config(arch).num_hidden_layers)
    return {name: names.get_name(name, (".weight", ".bias")) for name in hf_names}


def _llama_cpp_order(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """Permute query and key weights as llama.cpp's converter does."""
    halves = weight.reshape(num_heads, 2, weight.shape[0] // num_heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def new_writer(path: Path, arch: str, num_layers: int, **split: int) -> GGUFWriter:
    """A file with the shape that llama.cpp wants even if it reads only the vocabulary."""
    writer = GGUFWriter(path, arch, **split)
    writer.add_context_length(MAX_LENGTH)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(num_layers)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HEAD_SIZE)
    return writer


def finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_gguf(
    path: Path,
    arch: str = "llama",
    *,
    tied: bool = False,
    type_: GGMLQuantizationType = GGMLQuantizationType.F32,
    pre: str | None = "gpt-2",
    metadata: dict[str, Any] | None = None,
    extra_tensors: dict[str, np.ndarray] | None = None,
    integers: str = "",
    **split: int,
) -> dict[str, np.ndarray]:
    """Write a model; return its unquantized weights under Hugging Face names.

    integers: the tensor with this name is written as I32, which no model has
    split: options of the library, for a model in several files
    """
    weights = hf_weights(arch, tied)
    joined = _join_experts(weights)
    names = _gguf_names(joined, arch)
    writer = new_writer(path, arch, hf_config(arch).num_hidden_layers, **split)
    # Granite 4's converter writes a number for each layer.
    writer.add_head_count_kv([KV_HEADS] * LAYERS if arch == "granite" else KV_HEADS)
    if "moe" in arch:
        writer.add_expert_count(4)
        writer.add_expert_used_count(2)
    writer.add_rope_freq_base(ROPE_THETA)
    writer.add_key_length(HEAD_SIZE)
    writer.add_value_length(HEAD_SIZE)
    writer.add_tokenizer_model("gpt2")
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(VOCABULARY)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(VOCABULARY) - len(SPECIAL)))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    for key, value in (_METADATA.get(arch, {}) | (metadata or {})).items():
        writer.kv_data[0].pop(key, None)
        adders = {str: writer.add_string, int: writer.add_uint32}
        adders |= {float: writer.add_float32, bool: writer.add_bool}
        adders[type(value)](key, value)
    for name, weight in joined.items():
        permuted = arch in ("llama", "granite", "granitemoe", "smollm3")
        if permuted and name.endswith(("q_proj.weight", "k_proj.weight")):
            weight = _llama_cpp_order(weight, HEADS if "q_proj" in name else KV_HEADS)
        if names[name] == integers:
            writer.add_tensor(integers, weight.astype(np.int32))
            continue
        if arch == "gemma3" and name.endswith("norm.weight"):
            weight = weight + 1
        plain = weight.ndim == 1 or "ffn_gate_inp" in names[name]  # llama.cpp keeps routers
        used = GGMLQuantizationType.F32 if plain else type_
        writer.add_tensor(names[name], quantize(weight, used), raw_dtype=used)
    extra = {name: np.array(x, np.float32) for name, x in _TENSORS.get(arch, {}).items()}
    for name, tensor in (extra | (extra_tensors or {})).items():
        writer.add_tensor(name, tensor)
    finish(writer)
    return weights
