"""Generated models: `tiny-random`, `tiny-moe`, and the shape of Qwen3-0.6B without weights.

Their tokenizer makes one token of each byte, so the length of a prompt is easy to see.

`tiny-random` is a tiny Llama for tests that want noise. The output is noise, but the checkpoint is
complete: `transformers` loads it and computes the same numbers. With the usual standard deviation
of 0.02, the layers would add almost nothing, the logits would be almost equal, and a broken KV
cache would change tokens only by chance. So here each matrix keeps the magnitude of its input. Then
the next token depends on the keys and values that attention reads. `tiny-moe` is the same with
eight experts in each layer, of which a token takes two.

`qwen3-0.6b-dummy` is for speed benchmarks: `load_format="dummy"` draws the weights from a seed. The
time of a step depends on shapes, not on values. Do not compare the tokens of two engines: the
151,936 logits are nearly equal, so a sum in another order can change which logit is the largest.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from minivllm.runtime.checkpoint.checkpoint import write_json
from minivllm.runtime.model.model_config import ModelConfig
from minivllm.runtime.model.weight_map import weight_shards

_SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
_BOS, _EOS = 1, 2
_MIN_VOCAB_SIZE = 256 + len(_SPECIAL_TOKENS)
_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_SEED = 0
_TINY_RANDOM: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32",
    "vocab_size": _MIN_VOCAB_SIZE, "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "max_position_embeddings": 2048, "tie_word_embeddings": False, "attention_bias": False,
    "bos_token_id": _BOS, "eos_token_id": _EOS,
}  # fmt: skip

_TINY_MOE: dict[str, Any] = _TINY_RANDOM | {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_hidden_layers": 4,
    "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
    "norm_topk_prob": True,
}  # fmt: skip

_QWEN3_06B: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "dtype": "bfloat16",
    "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072,
    "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
    "max_position_embeddings": 40960, "tie_word_embeddings": True, "attention_bias": False,
    "use_sliding_window": False,
    # These are ids of our tokenizer, not of Qwen's.
    "bos_token_id": _BOS, "eos_token_id": _EOS,
}  # fmt: skip
"""Source of the numbers: the `config.json` of Qwen/Qwen3-0.6B."""


def write_tiny_random(directory: Path, config: dict[str, Any] = _TINY_RANDOM) -> None:
    """Write the checkpoint's files into `directory`, the same bytes every time."""
    _write_other_files(directory, config)
    # transformers refuses files without this entry.
    save_file(dict(_random_weights(config)), directory / "model.safetensors", {"format": "pt"})


def _random_weights(config: dict[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (Hugging Face name, weight); matrices are [out_features, in_features]."""
    random = np.random.Generator(np.random.PCG64(_SEED))
    for name, shard in weight_shards(ModelConfig.from_hf_dict(config)).items():
        noise, shape = random.standard_normal(shard.shape), shard.shape
        if len(shape) == 1:
            noise = 1.0 + 0.1 * noise  # a norm's scale
        elif name == "lm_head.weight":
            noise *= 2.0 / np.sqrt(shape[1])  # logits in about +-2: neither flat nor extreme
        elif name != "model.embed_tokens.weight":
            noise /= np.sqrt(shape[1])
        yield name, noise.astype(np.float32)


def _write_other_files(directory: Path, config: dict[str, Any]) -> None:
    write_json(directory / "config.json", config)
    write_json(directory / "generation_config.json", {"bos_token_id": _BOS, "eos_token_id": _EOS})
    _write_byte_tokenizer(directory, config["vocab_size"])


def _write_byte_tokenizer(directory: Path, vocab_size: int) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`, with a text for each of the ids.

    Tokens that are no byte are four-letter words. Encoding never produces them, because there are
    no merges, but without these texts, detokenizing would look faster in a benchmark than it is.
    """
    # ByteLevel writes each byte as one printable character. Without merges, that is one token.
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = islice(map("".join, product(ascii_lowercase, repeat=4)), vocab_size - _MIN_VOCAB_SIZE)
    vocab = {token: index for index, token in enumerate([*_SPECIAL_TOKENS, *alphabet, *words])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in _SPECIAL_TOKENS]
    )
    tokenizer.save(str(directory / "tokenizer.json"))
    pad, bos, eos = _SPECIAL_TOKENS
    config = {"tokenizer_class": "PreTrainedTokenizerFast"}
    config |= {"bos_token": bos, "eos_token": eos, "pad_token": pad}
    write_json(directory / "tokenizer_config.json", config | {"chat_template": _CHAT_TEMPLATE})


TOY_WRITERS = {
    "tiny-random": write_tiny_random,
    "tiny-moe": partial(write_tiny_random, config=_TINY_MOE),
    "qwen3-0.6b-dummy": partial(_write_other_files, config=_QWEN3_06B),
}
"""Alias -> what fills its directory."""
