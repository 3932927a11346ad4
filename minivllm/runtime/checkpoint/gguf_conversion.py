"""Make a GGUF file a checkpoint directory: its `config.json`, tokenizer and chat template as files.

The directory gets `config.json`, `generation_config.json` and the tokenizer's files, which
`transformers` rebuilds. The weights stay in the GGUF file: `model.gguf` is a link to it, and
`gguf` reads them from there.
"""

import os
from pathlib import Path
from typing import Any, TypeVar

from tokenizers import Tokenizer, pre_tokenizers

from minivllm.errors import ModelIntegrityError, UnsupportedModelError
from minivllm.runtime.checkpoint.checkpoint import GGUF_FILE, write_json
from minivllm.runtime.checkpoint.gguf import (
    GgufHeader,
    gguf_entries,
    read_gguf_header,
    read_rope_freqs,
)
from minivllm.runtime.model.model_config import FAMILIES, ModelConfig
from minivllm.runtime.progress import Progress
from minivllm.runtime.text.tokenizer import is_panic

T = TypeVar("T")

_MODEL_CLASSES = {
    family.model_type: name
    for name, family in FAMILIES.items()
    if family.model_type in ("llama", "qwen2", "qwen3")
}
"""GGUF architecture, which is also Hugging Face's `model_type` -> Hugging Face class."""
_SPLIT_RULES = {
    "default", "gpt-2", "smollm", "llama3", "llama-v3", "llama-bpe", "qwen2", "deepseek-r1-qwen",
}  # fmt: skip
"""The values of `tokenizer.ggml.pre` for which we know how to split text into words."""


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
    config = _build_config(header, arch)
    _refuse_unless_plain(header, arch, config["head_dim"])
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


def _refuse_unless_plain(header: GgufHeader, arch: str, head_size: int) -> None:
    """Refuse variants of a known architecture that would load but compute wrong results."""
    metadata, path = header.metadata, header.path
    scaling = _value(header, f"{arch}.rope.scaling.type", str, "")
    # llama.cpp takes a factor without a type as linear. Files of 2023 have the other key.
    factors = (f"{arch}.rope.scaling.factor", f"{arch}.rope.scale_linear")
    if scaling not in ("", "none") or (not scaling and any(key in metadata for key in factors)):
        raise UnsupportedModelError(
            f"{path} uses scaled rotary embeddings, whose settings a GGUF file does not fully"
            " contain: use the model's safetensors checkpoint instead."
        )
    if f"{arch}.attention.sliding_window" in metadata:
        raise UnsupportedModelError(
            f"{path} uses sliding-window attention, which minivllm does not run."
        )
    for key in ("attention.value_length", "rope.dimension_count"):
        if metadata.get(f"{arch}.{key}", head_size) != head_size:
            raise UnsupportedModelError(
                f"{path} has a {arch}.{key} that differs from its head size: that is not supported."
            )
    model, rule = (
        _value(header, "tokenizer.ggml.model", str),
        _value(header, "tokenizer.ggml.pre", str, "default"),
    )
    if model not in ("gpt2", "llama") or (model == "gpt2" and rule not in _SPLIT_RULES):
        raise UnsupportedModelError(
            f"{path} has a tokenizer of kind {f'{model}/{rule}'!r:.100}, which cannot be rebuilt"
            " faithfully: use the model's safetensors checkpoint instead."
        )


def _build_config(header: GgufHeader, arch: str) -> dict[str, Any]:
    def number(key: str, default: int | None = None) -> int:
        return _value(header, f"{arch}.{key}", int, default)

    if "token_embd.weight" not in header.tensors:
        raise ModelIntegrityError(
            f"{header.path} has no token embeddings: it is not a complete language model."
        )
    # A damaged number must not build a list of a billion layers.
    if number("block_count") > len(header.tensors):
        raise ModelIntegrityError(
            f"{header.path} has fewer tensors than layers: it is not a complete model."
        )
    num_heads = number("attention.head_count")
    hidden_size = number("embedding_length")
    return {
        "architectures": [_MODEL_CLASSES[arch]],
        "model_type": arch,
        "dtype": "float32",
        "vocab_size": header.tensors["token_embd.weight"].shape[0],
        "hidden_size": hidden_size,
        "intermediate_size": number("feed_forward_length"),
        "num_hidden_layers": number("block_count"),
        "num_attention_heads": num_heads,
        "num_key_value_heads": number("attention.head_count_kv", num_heads),
        "head_dim": number("attention.key_length", hidden_size // max(num_heads, 1)),
        "hidden_act": "silu",
        "rms_norm_eps": _value(header, f"{arch}.attention.layer_norm_rms_epsilon", float),
        "rope_parameters": _rope_parameters(header, arch, number("context_length")),
        "max_position_embeddings": number("context_length"),
        # llama.cpp omits the output projection if it equals the embedding matrix.
        "tie_word_embeddings": "output.weight" not in header.tensors,
        # Qwen2 always has these biases, but its metadata does not mention them.
        "attention_bias": "blk.0.attn_q.bias" in header.tensors,
        "bos_token_id": header.metadata.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": header.metadata.get("tokenizer.ggml.eos_token_id"),
    }


def _rope_parameters(header: GgufHeader, arch: str, context_length: int) -> dict[str, Any]:
    """Return the rotation as Hugging Face writes it.

    Llama 3.1 and later scale their frequencies. A GGUF file has the result as a tensor, the divisor
    of each frequency, which is what Hugging Face calls `longrope`.
    """
    rope = {"rope_theta": _value(header, f"{arch}.rope.freq_base", float, 10000.0)}
    if (divisors := read_rope_freqs(header)) is None:
        return rope | {"rope_type": "default"}
    return rope | {
        "rope_type": "longrope",
        "short_factor": divisors,
        "long_factor": divisors,
        "attention_factor": 1.0,
        "original_max_position_embeddings": context_length,
    }


def convert_gguf(path: Path, directory: Path, progress: Progress) -> None:
    """Fill the existing, empty `directory`, with a link to `path`. Raises a `ModelError`."""
    header = read_gguf_header(path)
    config = check_convertible(header)
    progress(f"Reading the tokenizer of {path.name} (only once; the result is cached).")
    write_json(directory / "config.json", config)
    eos = {key: config[key] for key in ("bos_token_id", "eos_token_id") if config[key] is not None}
    write_json(directory / "generation_config.json", eos)
    _convert_tokenizer(header, directory)


def _convert_tokenizer(header: GgufHeader, directory: Path) -> None:
    """Write the tokenizer's files, and the link `model.gguf`."""
    # This import takes seconds.
    from transformers import AutoTokenizer

    # transformers also reads other files beside the GGUF file. So give it a link in a directory
    # without other files.
    beside = directory / "source"
    beside.mkdir()
    link = beside / GGUF_FILE
    os.symlink(header.path.resolve(), link)
    try:
        AutoTokenizer.from_pretrained(
            beside, gguf_file=link.name, trust_remote_code=False
        ).save_pretrained(directory)
    except OSError:  # a problem with the disk; the GGUF file may be good
        raise
    except BaseException as error:  # transformers raises any error if the lists are inconsistent
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise ModelIntegrityError(
            f"The tokenizer in {header.path} cannot be rebuilt ({str(error)!r:.100}): download it"
            " again."
        ) from error
    link.rename(directory / GGUF_FILE)
    beside.rmdir()
    if header.metadata.get("tokenizer.ggml.pre") == "smollm":
        _split_digits(directory / "tokenizer.json")


def _split_digits(tokenizer_json: Path) -> None:
    """Add SmolLM's rule to split text at every digit; transformers does not read it from GGUF."""
    tokenizer = Tokenizer.from_file(str(tokenizer_json))
    digits, byte_level = (
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    tokenizer.save(str(tokenizer_json))
