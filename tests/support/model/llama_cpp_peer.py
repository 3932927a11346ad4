"""llama.cpp as the oracle for GGUF files: needs `pip install llama-cpp-python`.

`python -m support.model.llama_cpp_peer`, in the folder tests, records the token ids anew.
"""

import json
import tempfile
from pathlib import Path

import llama_cpp
import numpy as np

from support.model import tokenizer_files as files

_FLOAT32 = 0


def token_ids(path: Path) -> list[list[int]]:
    """The ids of all texts, with the special tokens that a prompt gets."""
    model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    return [model.tokenize(text.encode(), add_bos=True, special=True) for text in files.TEXTS]


def logits(path: Path, prompt: list[int]) -> np.ndarray:
    """The logits after each token of `prompt`: [tokens, vocabulary]."""
    model = llama_cpp.Llama(
        str(path), n_ctx=len(prompt), logits_all=True, verbose=False, flash_attn=False,
        type_k=_FLOAT32, type_v=_FLOAT32,
    )  # fmt: skip
    model.eval(prompt)
    return model.scores[: len(prompt)]


def main() -> None:
    recorded = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in [*files.BYTE_LEVEL_RULES, *files.SENTENCEPIECE]:
            path = Path(folder) / "m.gguf"
            files.write_tokenizer(path, name)
            recorded[name] = files.digests(token_ids(path))
    files.RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
