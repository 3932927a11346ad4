"""Make a GGUF file a checkpoint directory: its `config.json`, tokenizer and chat template as files.

The weights stay in the GGUF file or files: `model.gguf` is a link, and `gguf` reads them there.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from minivllm.errors import ModelIntegrityError, UnsupportedModelError
from minivllm.runtime.checkpoint.checkpoint import GGUF_FILE, write_json
from minivllm.runtime.checkpoint.gguf import (
    GgufHeader,
    gguf_entries,
    part_paths,
    read_gguf_header,
    read_rope_divisors,
)
from minivllm.runtime.checkpoint.gguf_tokenizer import SPLIT_RULES, convert_tokenizer
from minivllm.runtime.model.model_config import FAMILIES, ModelConfig
from minivllm.runtime.progress import Progress
from minivllm.runtime.text.tokenizer import is_panic

T = TypeVar("T")
Get = Callable[..., Any]
"""(key, type, default) -> a setting of the file's architecture"""

_ARCHITECTURES = {"qwen3_moe": "qwen3moe", "gemma3_text": "gemma3"}
"""Hugging Face's `model_type` -> GGUF's name of the architecture, where they differ."""
_MODEL_CLASSES = {
    _ARCHITECTURES.get(family.model_type, family.model_type): name
    for name, family in FAMILIES.items()
    # llama.cpp calls the first two llama, and the last one granite.
    if family.model_type not in ("mistral", "ministral", "granitemoehybrid")
}
"""GGUF architecture -> Hugging Face class."""
_GRANITE_KEYS = {
    "embedding_multiplier": "embedding_scale", "residual_multiplier": "residual_scale",
    "attention_multiplier": "attention.scale", "logits_scaling": "logit_scale",
}  # fmt: skip


def check_convertible(header: GgufHeader) -> dict[str, Any]:
    """Return the contents of the converted model's `config.json`; reads only the header.

    Raises `UnsupportedModelError` for a model that we cannot run, and `ModelIntegrityError` for an
    incomplete header.
    """
    arch = _value(header, "general.architecture", str)
    if arch not in _MODEL_CLASSES:
        raise UnsupportedModelError(
            f"{header.path} is a GGUF file of architecture {arch!r:.50}; minivllm runs"
            f" {', '.join(_MODEL_CLASSES)}."
        )

    def get(key: str, kind: type[T], default: T | None = None) -> T:
        return _value(header, f"{arch}.{key}", kind, default)

    config = _build_config(header, arch, get)
    _refuse_unless_plain(header, arch, config["head_dim"], get)
    ModelConfig.from_hf_dict(config)
    gguf_entries(header)
    return config


def _value(header: GgufHeader, key: str, kind: type[T], default: T | None = None) -> T:
    value = header.metadata.get(key, default)
    if value is None:
        raise ModelIntegrityError(
            f"{header.path} lacks {key}: it is not a complete language model."
        )
    if not isinstance(value, kind):
        raise ModelIntegrityError(
            f"{header.path} has the value {value!r:.50} for {key}: download it again."
        )
    return value


def _refuse_unless_plain(header: GgufHeader, arch: str, head_size: int, get: Get) -> None:
    """Refuse variants of a known architecture that would load but compute wrong results."""
    scaling, window = get("rope.scaling.type", str, ""), get("attention.sliding_window", int, 0)
    head_sizes = {get("attention.value_length", int, head_size)}
    if "partial_rotary_factor" not in FAMILIES[_MODEL_CLASSES[arch]].keys:
        head_sizes.add(get("rope.dimension_count", int, head_size))
    reasons = {
        "scaled rotary embeddings, whose settings a GGUF file does not fully contain": (
            scaling not in ("", "none", "linear")
        ),
        "no rotary embeddings": not get("rope.scaling.finetuned", bool, True),
        # 0 is no window, in Phi-4-mini.
        "sliding-window attention": (
            arch not in ("phi3", "gemma3") and 0 < window < get("context_length", int, 0)
        ),
        "heads of several sizes, or rotates only a part of each": head_sizes != {head_size},
    }
    for reason, applies in reasons.items():
        if applies:
            raise UnsupportedModelError(
                f"{header.path} has {reason}, which minivllm does not run: use another model."
            )
    model = _value(header, "tokenizer.ggml.model", str)
    # Files made before May 2024 do not name the rule.
    rule = _value(header, "tokenizer.ggml.pre", str, "default")
    if model != "llama" and (model != "gpt2" or rule not in SPLIT_RULES):
        raise UnsupportedModelError(
            f"{header.path} has a tokenizer of kind {f'{model}/{rule}'!r:.100}, which cannot be"
            " rebuilt faithfully: use the model's safetensors checkpoint, or a newer GGUF file."
        )


def _build_config(header: GgufHeader, arch: str, get: Get) -> dict[str, Any]:
    num_layers, num_heads = get("block_count", int), get("attention.head_count", int)
    # A damaged number must not build a list of a billion layers.
    if "token_embd.weight" not in header.tensors or num_layers > len(header.tensors):
        raise ModelIntegrityError(
            f"{header.path} has no token embeddings, or fewer tensors than layers: it is not a"
            " complete language model."
        )
    hidden_size = get("embedding_length", int)
    head_size = get("attention.key_length", int, hidden_size // max(num_heads, 1))
    config = {
        "architectures": [_MODEL_CLASSES[arch]],
        "model_type": FAMILIES[_MODEL_CLASSES[arch]].model_type,
        "dtype": "float32",
        "vocab_size": header.tensors["token_embd.weight"].shape[0],
        "hidden_size": hidden_size,
        "intermediate_size": get("feed_forward_length", int),
        "num_hidden_layers": num_layers,
        "num_attention_heads": num_heads,
        "num_key_value_heads": get("attention.head_count_kv", int, num_heads),
        "head_dim": head_size,
        "hidden_act": "silu",
        "rms_norm_eps": get("attention.layer_norm_rms_epsilon", float),
        "rope_parameters": _rope_parameters(header, head_size, get),
        "max_position_embeddings": get("context_length", int),
        # llama.cpp omits the output projection if it equals the embedding matrix.
        "tie_word_embeddings": "output.weight" not in header.tensors,
        # Qwen2 always has these biases, but its metadata does not mention them.
        "attention_bias": "blk.0.attn_q.bias" in header.tensors,
        "bos_token_id": header.metadata.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": header.metadata.get("tokenizer.ggml.eos_token_id"),
        "pad_token_id": header.metadata.get("tokenizer.ggml.padding_token_id"),
    }
    return config | _own_switches(config, arch, get)


def _own_switches(config: dict[str, Any], arch: str, get: Get) -> dict[str, Any]:
    """Return the keys of `config.json` that only this architecture has."""
    numbers = range(1, config["num_hidden_layers"] + 1)
    if arch == "smollm3":  # The file does not say this; llama.cpp has the number 4, too.
        return {"no_rope_layers": [int(number % 4 != 0) for number in numbers]}
    switches: dict[str, Any] = {}
    if arch.startswith("granite"):
        switches = {hf: get(key, float) for hf, key in _GRANITE_KEYS.items()}
    if "experts" in FAMILIES[_MODEL_CLASSES[arch]].keys:
        switches["num_local_experts"] = get("expert_count", int)
        switches["num_experts_per_tok"] = get("expert_used_count", int)
        switches["moe_intermediate_size"] = get("expert_feed_forward_length", int, 0) or None
        # llama.cpp knows this of each architecture, and no file says it.
        switches["norm_topk_prob"] = arch != "olmoe"
    if arch not in ("phi3", "gemma3"):
        return switches
    window = {"sliding_window": get("attention.sliding_window", int, 0) or None}
    if arch == "phi3":
        return window
    pattern = get("attention.sliding_window_pattern", int, 6)
    slides = [window["sliding_window"] and (not pattern or i % pattern) for i in numbers]
    kinds = ["sliding_attention" if slide else "full_attention" for slide in slides]
    local = {"rope_type": "default", "rope_theta": get("rope.freq_base_swa", float, 10000.0)}
    head_size = config["head_dim"]
    if len(numbers) == 62:  # as in llama.cpp: only the 27B model has another scale of scores
        head_size = config["hidden_size"] // config["num_attention_heads"]
    return window | {
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": head_size,
        "layer_types": kinds,
        "rope_parameters": {
            "full_attention": config["rope_parameters"], "sliding_attention": local,
        },
        "final_logit_softcapping": get("final_logit_softcapping", float, 0.0) or None,
        "attn_logit_softcapping": get("attn_logit_softcapping", float, 0.0) or None,
    }  # fmt: skip


def _rope_parameters(header: GgufHeader, head_size: int, get: Get) -> dict[str, Any]:
    """Return the rotation as Hugging Face writes it.

    Llama 3.1 and later scale their frequencies. A GGUF file has the result as a tensor, the divisor
    of each frequency, which is what Hugging Face calls `longrope`.
    """
    rope: dict[str, Any] = {"rope_theta": get("rope.freq_base", float, 10000.0)}
    # llama.cpp takes a factor without a type as linear. Files of 2023 have the other key.
    factor = get("rope.scaling.factor", float, get("rope.scale_linear", float, 1.0))
    is_linear = factor != 1 and get("rope.scaling.type", str, "linear") == "linear"
    rope |= {"rope_type": "linear", "factor": factor} if is_linear else {"rope_type": "default"}
    rotated = get("rope.dimension_count", int, head_size)
    if rotated != head_size:
        rope["partial_rotary_factor"] = rotated / max(head_size, 1)
    if divisors := read_rope_divisors(header):
        trained = get("context_length", int)
        original = get("rope.scaling.original_context_length", int, trained)
        rope |= {"rope_type": "longrope", "original_max_position_embeddings": original}
        rope |= {"short_factor": divisors[0], "long_factor": divisors[-1]}
        rope["attention_factor"] = get("rope.scaling.attn_factor", float, 1.0)
    return rope


def convert_gguf(path: Path, directory: Path, progress: Progress) -> None:
    """Fill the existing, empty `directory`, with a link to `path`. Raises a `ModelError`."""
    header = read_gguf_header(path)
    config = check_convertible(header)
    progress(f"Reading the tokenizer of {path.name} (only once; the result is cached).")
    try:
        ends = convert_tokenizer(header, directory)
    except OSError:  # a problem with the disk; the GGUF file may be good
        raise
    except BaseException as error:  # any error if the lists are inconsistent
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise ModelIntegrityError(
            f"The tokenizer in {path} cannot be rebuilt ({str(error)!r:.100}): download it again."
        ) from error
    write_json(directory / "config.json", config)
    write_json(directory / "generation_config.json", {"eos_token_id": ends})
    firsts = path, directory / GGUF_FILE
    for part, link in zip(*(part_paths(first, header.num_files) for first in firsts), strict=True):
        os.symlink(part.resolve(), link)
