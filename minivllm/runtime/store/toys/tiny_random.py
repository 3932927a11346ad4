"""`tiny-random`: a tiny Llama, generated for tests that want noise.

One byte is one token, so the length of a prompt is easy to see. The output is noise, but the
checkpoint is complete: `transformers` loads it and computes the same numbers.

With the usual standard deviation of 0.02, the layers would add almost nothing, the logits would be
almost equal, and a broken KV cache would change tokens only by chance. So here each matrix keeps
the magnitude of its input. Then the next token depends on the keys and values that attention reads.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from minivllm.runtime.store.toys.byte_tokenizer import (
    BOS,
    EOS,
    MIN_VOCAB_SIZE,
    write_byte_tokenizer,
    write_json,
)

_VERSION = 1
CACHE_KEY = f"tiny-random-v{_VERSION}"

_SEED = 0
_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "dtype": "float32",
    "vocab_size": MIN_VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
}


def write_checkpoint(directory: Path) -> None:
    """Write the checkpoint's files into `directory`, the same bytes every time."""
    write_json(directory / "config.json", _CONFIG)
    write_json(directory / "generation_config.json", {"bos_token_id": BOS, "eos_token_id": EOS})
    write_byte_tokenizer(directory)
    # transformers refuses files without this entry.
    save_file(dict(_weights(_shapes())), directory / "model.safetensors", {"format": "pt"})


def _shapes() -> dict[str, tuple[int, ...]]:
    """Tensor name -> shape; matrices are [out_features, in_features]."""
    hidden, mlp, vocab = _CONFIG["hidden_size"], _CONFIG["intermediate_size"], _CONFIG["vocab_size"]
    kv_size = _CONFIG["num_key_value_heads"] * _CONFIG["head_dim"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, hidden)}
    for layer in range(_CONFIG["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        shapes |= {
            f"{prefix}.input_layernorm.weight": (hidden,),
            f"{prefix}.self_attn.q_proj.weight": (hidden, hidden),
            f"{prefix}.self_attn.k_proj.weight": (kv_size, hidden),
            f"{prefix}.self_attn.v_proj.weight": (kv_size, hidden),
            f"{prefix}.self_attn.o_proj.weight": (hidden, hidden),
            f"{prefix}.post_attention_layernorm.weight": (hidden,),
            f"{prefix}.mlp.gate_proj.weight": (mlp, hidden),
            f"{prefix}.mlp.up_proj.weight": (mlp, hidden),
            f"{prefix}.mlp.down_proj.weight": (hidden, mlp),
        }
    return shapes | {"model.norm.weight": (hidden,), "lm_head.weight": (vocab, hidden)}


def _weights(shapes: dict[str, tuple[int, ...]]) -> Iterator[tuple[str, np.ndarray]]:
    random = np.random.Generator(np.random.PCG64(_SEED))
    for name, shape in shapes.items():
        noise = random.standard_normal(shape)
        if len(shape) == 1:
            noise = 1.0 + 0.1 * noise  # a norm's scale
        elif name == "lm_head.weight":
            noise *= 2.0 / np.sqrt(shape[1])  # logits in about +-2: neither flat nor extreme
        elif name != "model.embed_tokens.weight":
            noise /= np.sqrt(shape[1])
        yield name, noise.astype(np.float32)
