"""`qwen3-0.6b-dummy`: the shape of Qwen3-0.6B without its weights, made on the spot, for benches of
speed.

A directory with a `config.json` that `transformers` builds the same architecture from, and a
tokenizer. It holds no weights and is loaded with `load_format="dummy"` only, which draws them from
a seed. What a step costs depends on shapes and not on values, so speed can be measured where
nothing can be downloaded.

Easy to get wrong: to believe what it says. Its text is noise, and the best two of 151,936 nearly
equal logits change places with any reordered sum, so tokens of two engines are not compared on it.

Source of the numbers: the `config.json` of Qwen/Qwen3-0.6B.
"""

from pathlib import Path
from typing import Any

from minivllm.runtime.store.toys.byte_tokenizer import BOS, EOS, write_byte_tokenizer, write_json

NAME = "qwen3-0.6b-dummy"
_VERSION = 1
CACHE_KEY = f"{NAME}-v{_VERSION}"
NEEDED_BYTES = 10_000_000

_CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "dtype": "bfloat16",
    "vocab_size": 151936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "use_sliding_window": False,
    # Of our tokenizer, not of Qwen's.
    "bos_token_id": BOS,
    "eos_token_id": EOS,
}


def write_checkpoint(directory: Path) -> None:
    """Write the files into `directory`, the same bytes every time."""
    write_json(directory / "config.json", _CONFIG)
    write_json(directory / "generation_config.json", {"bos_token_id": BOS, "eos_token_id": EOS})
    write_byte_tokenizer(directory, _CONFIG["vocab_size"])
