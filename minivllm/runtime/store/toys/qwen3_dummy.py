"""`qwen3-0.6b-dummy`: the shape of Qwen3-0.6B without its weights, for speed benchmarks.

It is a directory with a tokenizer and a `config.json`; `load_format="dummy"` draws the weights from
a seed. The time of a step depends on shapes, not on values, so speed can be measured without a
download. Do not compare the tokens of two engines: the 151,936 logits are nearly equal, so a sum in
another order can change which logit is the largest.

Source of the numbers: the `config.json` of Qwen/Qwen3-0.6B.
"""

from pathlib import Path
from typing import Any

from minivllm.runtime.store.toys.byte_tokenizer import BOS, EOS, write_byte_tokenizer, write_json

NAME = "qwen3-0.6b-dummy"
_VERSION = 1
CACHE_KEY = f"{NAME}-v{_VERSION}"

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
    # These are ids of our tokenizer, not of Qwen's.
    "bos_token_id": BOS,
    "eos_token_id": EOS,
}


def write_checkpoint(directory: Path) -> None:
    """Write the checkpoint's files into `directory`, the same bytes every time."""
    write_json(directory / "config.json", _CONFIG)
    write_json(directory / "generation_config.json", {"bos_token_id": BOS, "eos_token_id": EOS})
    write_byte_tokenizer(directory, _CONFIG["vocab_size"])
