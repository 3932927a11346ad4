"""`house`: the model in this package, a trained Llama of 2,177,088 parameters in bf16.

It needs no download, writes short stories and answers questions about serving. `make house-model`
trains it again (tools/house_model). `SHA256SUMS` beside its files has their digests, which
`sha256sum --check` can read, too.
"""

import hashlib
from pathlib import Path

from minivllm.errors import ModelIntegrityError
from minivllm.runtime.checkpoint.checkpoint import read_json_object

NAME = "house"
FOLDER = Path(__file__).parent / "house"
FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)
DIGESTS = "SHA256SUMS"


def house_checkpoint(folder: Path = FOLDER) -> Path:
    """Return the directory of the model. Raises `ModelIntegrityError` if a file has changed."""
    expected = _read_digests(folder)
    for name in FILES:
        if expected.get(name) != _digest(folder / name):
            raise ModelIntegrityError(
                f"The house model is damaged ({folder / name} is missing or was changed): install"
                " minivllm again, or in a clone run `git checkout minivllm/runtime/store/house`."
            )
    if missing := num_missing_bytes(folder / "tokenizer.json"):
        raise ModelIntegrityError(
            f"The house model's vocabulary lacks {missing} of the 256 bytes, so it cannot encode"
            " every text: train it again with `make house-model`."
        )
    return folder


def write_digests(folder: Path) -> None:
    """Write the digests of a trained model, in the format of `sha256sum`."""
    lines = [f"{_digest(folder / name)}  {name}\n" for name in FILES]
    (folder / DIGESTS).write_text("".join(lines), encoding="utf-8")


def num_missing_bytes(tokenizer: Path) -> int:
    """Return how many of the 256 bytes have no token in a byte-level vocabulary."""
    from tokenizers.pre_tokenizers import ByteLevel

    vocabulary = read_json_object(tokenizer)["model"]["vocab"]
    return len(set(ByteLevel.alphabet()) - set(vocabulary))


def _digest(file: Path) -> str | None:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def _read_digests(folder: Path) -> dict[str, str]:
    try:
        lines = (folder / DIGESTS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return {}
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
