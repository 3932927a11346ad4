"""`house`: the model in this package, a trained Llama of 2,177,088 parameters in bf16.

It needs no download, writes short stories and answers questions about serving. `make house-model`
trains it again (tools/house_model) and writes the digests of its files beside them.
"""

from pathlib import Path

from minivllm.errors import ModelIntegrityError
from minivllm.runtime.checkpoint.checkpoint import read_json_object
from minivllm.runtime.checkpoint.digests import changed_file

NAME = "house"
FOLDER = Path(__file__).parent / "house"
FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)


def house_checkpoint(folder: Path = FOLDER) -> Path:
    """Return the directory of the model. Raises `ModelIntegrityError` if a file has changed."""
    if (file := changed_file(folder, FILES)) is not None:
        raise ModelIntegrityError(
            f"The house model is damaged ({file} is missing or was changed): install minivllm"
            " again, or in a clone run `git checkout minivllm/runtime/store/house`."
        )
    if missing := num_missing_bytes(folder / "tokenizer.json"):
        raise ModelIntegrityError(
            f"The house model's vocabulary lacks {missing} of the 256 bytes, so it cannot encode"
            " every text: train it again with `make house-model`."
        )
    return folder


def num_missing_bytes(tokenizer: Path) -> int:
    """Return how many of the 256 bytes have no token in a byte-level vocabulary."""
    from tokenizers.pre_tokenizers import ByteLevel

    vocabulary = read_json_object(tokenizer)["model"]["vocab"]
    return len(set(ByteLevel.alphabet()) - set(vocabulary))
