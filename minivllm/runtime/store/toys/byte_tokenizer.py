"""A generated tokenizer for generated models: one byte is one token, so lengths are easy to see.

The vocabulary can be larger, to match a real model's shape. The additional tokens are four-letter
words. Encoding never produces them, because there are no merges, but each id has a text of typical
length. Without these texts, detokenizing would look faster in a benchmark than it is.
"""

import json
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase
from typing import Any

SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
BOS, EOS = 1, 2
MIN_VOCAB_SIZE = 256 + len(SPECIAL_TOKENS)
_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def write_byte_tokenizer(directory: Path, vocab_size: int = MIN_VOCAB_SIZE) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`, with a text for each of the ids."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    # ByteLevel writes each byte as one printable character. Without merges, that is one token.
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = islice(
        ("".join(letters) for letters in product(ascii_lowercase, repeat=4)),
        vocab_size - MIN_VOCAB_SIZE,
    )
    vocab = {token: index for index, token in enumerate([*SPECIAL_TOKENS, *alphabet, *words])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS]
    )
    tokenizer.save(str(directory / "tokenizer.json"))
    write_json(
        directory / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<|im_start|>",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "chat_template": _CHAT_TEMPLATE,
        },
    )


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a small file of a checkpoint; the same value always gives the same bytes."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
