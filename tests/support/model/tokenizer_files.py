"""GGUF files with a tokenizer and nothing else, and 200 texts to try it on.

Almost any two or three characters that meet in a text can merge, so a text that is cut into words
at another place gets other token ids.
"""

import hashlib
import json
import random
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gguf import GGUFWriter
from tokenizers import pre_tokenizers

from support.model.gguf_files import finish, new_writer

_FRAGMENTS = [
    " ", "  ", "     ", "\n", "\n\n", " \n", "\n ", "\r\n", "\t", "\t\t", "\u00a0", "\u3000",
    " \t \n\n x",
    "a", "I", "the", " the", "The quick brown fox", "it's", "IT'S", "we'll've", " don't", "x'Y",
    "''", "' s",
    "HTTPServer", "camelCaseWords", "snake_case", "éÀ", "naïve", "Straße", "ǅ", "ﬁ",
    "e\u0301a\u0300", "İ",
    "0", "7", "12", "123", "1234", " 1234567", "3.14", "1,000", "x2y", "٣٤٥", "½", "Ⅷ", "²", "१२३४",
    "привет", " Мир", "ΑΒγ", "日本語", "こんにちは", "カタカナ", "한국어", "مرحبا", "שלום", "हिन्दी", "ไทย",
    "தமிழ்",
    "😀", "👩‍👩‍👧", "🇫🇷", "👍🏽", "❤️", "\u200b", "\u200d", "\ufeff", "\ufffd", "\U000f0000", "\x00",
    "\x7f",
    ".", "...", "!?", " -", "--", "(x)", "[0]", "{}", "\"quoted\"", "“curly”", "—", "…", "¿",
    "。", "、", "$5", "€",
    "a+b=c", "x_1", "#include <a.h>\n", "def f(x):\n    return x\n", "for(;;){i++;}", "a/b\\c",
    "http://x.org/?q=1&r=2",
    "<html>", "</s>", "<s>", "<unk>", "<|im_start|>", "<|im_end|>", "<|im_end|", "<think>",
    "</think>", "<｜User｜>",
    "<｜begin▁of▁sentence｜>", "▁", "Ġ", "whole", " whole", "wholes",
    "<|im_start|>user\nHi<|im_end|>\n",
]  # fmt: skip
_NUM_TEXTS = 200


def _texts() -> list[str]:
    rng, texts = random.Random(0), ["", *_FRAGMENTS]
    while len(texts) < _NUM_TEXTS:
        texts.append("".join(rng.choice(_FRAGMENTS) for _ in range(rng.randrange(2, 9))))
    return texts


TEXTS = _texts()
RECORDED = Path(__file__).with_name("llama_cpp_token_ids.json")
"""Name of a file below -> `digests` of the ids that llama.cpp gives; see `llama_cpp_peer`."""
BYTE_LEVEL_RULES = [
    "gpt-2", "phi-2", "olmo", "mellum", "smollm", "refact", "starcoder", "command-r", "llama3",
    "llama-v3", "llama-bpe", "falcon3", "pixtral", "midm-2.0", "lfm2", "tekken", "dbrx",
    "smaug-bpe", "qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "gpt-4o",
]  # fmt: skip
SENTENCEPIECE = {
    "llama": {},
    "llama without a space first": {"add_space_prefix": False},
    "llama without bos, with eos": {"add_bos_token": False, "add_eos_token": True},
    "phi-3": {"name": "Phi-3 mini"},
    "gemma": {
        "add_space_prefix": False, "user_defined": ["  ", "     ", "\n\n", "\t\t", "<html>"],
    },
}  # fmt: skip
"""Name -> settings of a SentencePiece file."""


def digests(token_ids: Iterable[list[int]]) -> str:
    """Four hexadecimal digits for the ids of each text."""
    return "".join(hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:4] for ids in token_ids)


def is_read_roughly(name: str, text: str) -> bool:
    """Whether llama.cpp's ids differ from those of the model's own tokenizer.

    It reads upper case and combining marks of these rules in ASCII only.
    """
    kinds = {unicodedata.category(char) for char in text if not char.isascii()}
    return name in ("tekken", "gpt-4o") and any(
        kind in ("Lu", "Lt") or kind[0] == "M" for kind in kinds
    )


def write_tokenizer(path: Path, name: str, arch: str = "llama") -> list[str]:
    """Write one of the files above; return its tokens."""
    if name in SENTENCEPIECE:
        return write_sentencepiece(path, arch, **SENTENCEPIECE[name])
    return write_bpe(path, name, arch)


_CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<｜User｜>", "<｜begin▁of▁sentence｜>"]
_USER_DEFINED = ["<think>", "</think>", "   "]
_BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def _pieces(texts: list[str]) -> list[tuple[str, str]]:
    """Pairs that merge: of two characters, then of two and one."""
    pairs = {(text[i], text[i + 1]) for text in texts for i in range(len(text) - 1)}
    threes = {(text[i : i + 2], text[i + 2]) for text in texts for i in range(len(text) - 2)}
    rng = random.Random(1)
    return [pair for some in (pairs, threes) for pair in rng.sample(sorted(some), len(some))]


def write_bpe(path: Path, pre: str | None, arch: str = "llama", **metadata: Any) -> list[str]:
    """Write a byte-level tokenizer; return its tokens."""
    spelled = ["".join(word for word, _ in _BYTE_LEVEL.pre_tokenize_str(text)) for text in TEXTS]
    merges = _pieces(spelled)
    # No merges lead to the last one.
    plain = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(a + b for a, b in merges), "Ġwhole"]
    plain = list(dict.fromkeys(plain))
    tokens = [*_CONTROL, *_USER_DEFINED, *plain]
    types = [3] * len(_CONTROL) + [4] * len(_USER_DEFINED) + [1] * len(plain)
    writer = _writer(
        path, "gpt2", arch, tokens, types, {"bos_token_id": 4, "eos_token_id": 2} | metadata
    )
    writer.add_token_merges([f"{a} {b}" for a, b in merges])
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    finish(writer)
    return tokens


def write_sentencepiece(
    path: Path, arch: str = "llama", user_defined: Iterable[str] = (), **metadata: Any
) -> list[str]:
    """Write a SentencePiece tokenizer; characters past U+3000 are bytes. Return its tokens."""
    texts = [f" {text}".replace(" ", "▁") for text in TEXTS]
    known = sorted({char for char in "".join(texts) if 32 < ord(char) < 0x3000})
    merged = [a + b for a, b in _pieces(texts) if set(a + b) <= set(known)]
    first = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    types = [2, 3, 3] + [6] * 256
    added = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", *user_defined]
    plain = [token for token in dict.fromkeys([*merged, *known]) if token not in first + added]
    tokens = [*first, *plain, *added]
    types += [1] * len(plain) + [3, 3, 3] + [4] * (len(added) - 3)
    ids = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
    writer = _writer(path, "llama", arch, tokens, types, ids | metadata)
    writer.add_token_scores([-float(i) for i in range(len(tokens))])
    finish(writer)
    return tokens


def _writer(
    path: Path, model: str, arch: str, tokens: list[str], types: list[int], ids: dict[str, Any]
) -> GGUFWriter:
    writer = new_writer(path, arch, num_layers=1)
    writer.add_name(ids.pop("name", "tiny"))
    writer.add_logit_scale(1.0)
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    for name, value in ids.items():
        if value is None:
            continue
        add = writer.add_bool if isinstance(value, bool) else writer.add_uint32
        add(f"tokenizer.ggml.{name}", value)
    return writer
