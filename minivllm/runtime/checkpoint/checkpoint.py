"""Check a checkpoint directory: `config.json`, `tokenizer.json` and safetensors or a GGUF file.

The check reads small files only, so a wrong directory or an unknown architecture is an error at
once.

Code from a checkpoint is never run: weights in pickle formats (`.bin`, `.pt`, `.pth`, ...), which
can run code when they are opened, are refused, and a config's `auto_map`, which points to Python
files, is ignored.
"""

import json
import os
from pathlib import Path
from typing import Any

from minivllm.errors import ModelIntegrityError, UnknownModelError, UnsupportedModelError
from minivllm.runtime.model.model_config import ModelConfig

PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
INDEX = "model.safetensors.index.json"
GGUF_FILE = "model.gguf"
"""A GGUF file in a checkpoint directory: the file itself, or a link to the user's file."""
_MAX_JSON_BYTES = 64 << 20
"""The largest file that we have seen is a tokenizer of 262,144 tokens, which takes 34 MB."""


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in `path`. Raises `ModelIntegrityError` if the file is not one."""
    if path.stat().st_size > _MAX_JSON_BYTES:
        raise ModelIntegrityError(
            f"{path} is larger than {_MAX_JSON_BYTES >> 20} MiB: download the model again."
        )
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ModelIntegrityError(
            f"{path} is damaged (it is not a JSON object): download the model again."
        )
    return value


def read_json_object_if_there(path: Path) -> dict[str, Any]:
    """Like `read_json_object`, but return {} if the file does not exist."""
    return read_json_object(path) if path.is_file() else {}


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a small file of a checkpoint; the same value always gives the same bytes."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def read_model_config(directory: Path) -> ModelConfig:
    """Read the shape of the model in `directory`. Raises a `ModelError` if it cannot be used."""
    path = directory / "config.json"
    if not path.is_file():
        raise UnknownModelError(f"{directory} is not a model directory: it has no config.json.")
    return ModelConfig.from_hf_dict(read_json_object(path))


def check_checkpoint(directory: Path, *, weights: bool = True) -> None:
    """Raise a `ModelError` if something is wrong with `directory`, or its `weights` are absent."""
    read_model_config(directory)
    if not (directory / "tokenizer.json").is_file():
        raise UnsupportedModelError(
            f"{directory} has no tokenizer.json: create one with transformers,"
            " AutoTokenizer.from_pretrained(...).save_pretrained(...)."
        )
    if weights:
        weight_files(directory)


def weight_files(directory: Path) -> list[Path]:
    """Return the model's weight files: safetensors (one, or the index's shards) or one GGUF file.

    Raises `ModelIntegrityError` or `UnsupportedModelError` if a file is missing.
    """
    index = directory / INDEX
    if index.is_file():
        return _shards(index)
    single = directory / "model.safetensors"
    if single.is_file():
        return [single]
    gguf = directory / GGUF_FILE
    if gguf.is_file():
        return [gguf]
    if gguf.is_symlink():
        raise ModelIntegrityError(
            f"The GGUF file {os.readlink(gguf)} was moved or deleted: give its new path as the"
            " model."
        )
    names = sorted(path.name for path in directory.iterdir())
    raise missing_weights(str(directory), names)


def missing_weights(place: str, names: list[str]) -> ModelIntegrityError | UnsupportedModelError:
    """Return the error for a directory or repository with files `names` but no safetensors."""
    if any(name.endswith(PICKLE_SUFFIXES) for name in names):
        return UnsupportedModelError(
            f"{place} has its weights in a pickle format only, which can run code when it is"
            " opened: convert them to safetensors (transformers: model.save_pretrained(...)) on a"
            " machine where that is safe."
        )
    if ggufs := [name for name in names if name.endswith(".gguf")]:
        return UnsupportedModelError(
            f"{place} contains GGUF files: name one of them as the model, such as {ggufs[0]}."
        )
    return ModelIntegrityError(
        f"{place} has no model.safetensors: the download is incomplete, download the model again."
    )


def _shards(index: Path) -> list[Path]:
    weight_map = read_json_object(index).get("weight_map")
    found = list(weight_map.values()) if isinstance(weight_map, dict) else []
    if not found or not all(isinstance(name, str) for name in found):
        raise ModelIntegrityError(
            f"{index} is damaged (it has no weight_map): download the model again."
        )
    names = sorted(set(found))
    for name in names:
        # Refuse paths: otherwise an index could name files outside its own directory.
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ModelIntegrityError(
                f"{index} names {name!r:.100}, which is not a safetensors file in the same"
                " directory."
            )
        # For an impossible file name, os.path returns False; pathlib would raise.
        if not os.path.isfile(index.parent / name):
            raise ModelIntegrityError(
                f"{index.parent} lacks {name!r:.100}: the download is incomplete, download the"
                " model again."
            )
    return [index.parent / name for name in names]
