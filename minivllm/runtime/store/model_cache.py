"""`ModelCache`: the directory of converted models. **An entry that exists is complete.**

A directory is filled under another name and renamed at the end. A rename within a file system is
atomic, so a crash, Ctrl-C or a full disk never leaves an entry that looks complete.

If two processes need the same entry, a lock per key makes the second process wait. A process with
the lock can safely remove a partial directory: the system released the lock of the process that
made it, so that process has died.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from minivllm.errors import ModelError, NotEnoughDiskSpaceError
from minivllm.runtime.paths import default_cache_root
from minivllm.runtime.progress import Progress, format_bytes

_PROVENANCE_FILE = "minivllm.json"
"""File in each entry with the entry's origin, for `minivllm model list`."""
CREATED_LOCALLY = "created locally"
"""The origin of a model that this package generates."""
_PARTIAL = ".partial"


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One complete model in the cache."""

    key: str
    path: Path
    origin: str
    """What the entry was made from, as text for the user."""


class ModelCache:
    """The entries under one root directory."""

    def __init__(
        self, root: Path | None = None, *, free_bytes: Callable[[Path], int] | None = None
    ) -> None:
        self.root = default_cache_root() if root is None else root
        self._models = self.root / "models"
        self._free_bytes = free_bytes or (lambda path: shutil.disk_usage(path).free)

    def get(self, key: str) -> Path | None:
        path = self._models / key
        return path if path.is_dir() else None

    def entries(self) -> list[CacheEntry]:
        if not self._models.is_dir():
            return []
        paths = sorted(
            p for p in self._models.iterdir() if p.is_dir() and not p.name.endswith(_PARTIAL)
        )
        return [CacheEntry(p.name, p, read_origin(p) or "unknown") for p in paths]

    def get_or_create(
        self,
        key: str,
        fill: Callable[[Path], None],
        *,
        origin: str,
        needed_bytes: int,
        progress: Progress,
    ) -> Path:
        """Return the entry's directory; if there is no entry, create it with `fill`.

        needed_bytes: peak disk usage of `fill`

        Raises `NotEnoughDiskSpaceError` before it calls `fill`. If the disk fills up during the
        call, it removes the partial files and raises the same error.
        """
        if (found := self.get(key)) is not None:
            return found
        with self._explaining_os_errors(needed_bytes), self._lock(key, progress):
            if (found := self.get(key)) is not None:  # made while we waited for the lock
                return found
            partial = self._models / f"{key}{_PARTIAL}"
            shutil.rmtree(partial, ignore_errors=True)
            self._require_space(needed_bytes)
            partial.mkdir(parents=True)
            try:
                fill(partial)
                (partial / _PROVENANCE_FILE).write_text(json.dumps({"origin": origin}) + "\n")
                _flush_to_disk(partial)
                partial.rename(self._models / key)
            except BaseException:  # KeyboardInterrupt too
                shutil.rmtree(partial, ignore_errors=True)
                raise
        return self._models / key

    @contextmanager
    def _lock(self, key: str, progress: Progress) -> Iterator[None]:
        # Import late: this takes a tenth of a second, and most models are in the cache already.
        from filelock import FileLock, Timeout

        directory = self.root / "locks"
        directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(directory / f"{key}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress(f"Waiting for another process that is preparing {key}.")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _require_space(self, needed_bytes: int) -> None:
        free = self._free_bytes(self.root)
        if free < needed_bytes:
            raise self._no_space(needed_bytes, f"{format_bytes(free)} are free")

    def _no_space(self, needed_bytes: int, finding: str) -> NotEnoughDiskSpaceError:
        return NotEnoughDiskSpaceError(
            f"This model needs {format_bytes(needed_bytes)} of disk space in {self.root}, but"
            f" {finding}: free some space, or set MINIVLLM_CACHE to a directory on a larger disk."
        )

    @contextmanager
    def _explaining_os_errors(self, needed_bytes: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self._no_space(needed_bytes, "the disk is full") from error
            # Explain only errors of files in the cache; the user's source file can fail too.
            if str(error.filename).startswith(str(self.root)):
                raise ModelError(
                    f"The model cache {self.root} cannot be written ({error.strerror}): set"
                    " MINIVLLM_CACHE to a writable directory."
                ) from error
            raise


def directory_bytes(path: Path) -> int:
    """Return the total size of all files below `path`, following links."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def read_origin(entry: Path) -> str | None:
    """Return what an entry was made from; None if that is unknown or `entry` is no entry."""
    try:
        return str(json.loads((entry / _PROVENANCE_FILE).read_text())["origin"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # the origin is only a label: damage to it must not hide the entry


def _flush_to_disk(directory: Path) -> None:
    # Without this, a power cut shortly after the rename could leave an entry with empty files.
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
