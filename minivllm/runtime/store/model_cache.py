"""`ModelCache`: the directory of converted models. **An entry that exists is complete.**

A directory is filled under another name and renamed at the end. A rename within a file system is
atomic, so a crash, Ctrl-C or a full disk never leaves an entry that looks complete.

If two processes need the same entry, a lock per key makes the second process wait. A process with
the lock can safely remove a partial directory: the system released the lock of the process that
made it, so that process has died.
"""

import errno
import json
import shutil
from collections.abc import Callable
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import TextIO

from minivllm.errors import ModelError
from minivllm.runtime.paths import default_cache_root
from minivllm.runtime.progress import Progress

_ORIGIN_FILE = "minivllm.json"
"""File in each entry with the entry's origin, for `minivllm model list`."""
CREATED_LOCALLY = "created locally"
"""The origin of a model that this package generates."""
_PARTIAL = ".partial"


class ModelCache:
    """The entries under one root directory."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = default_cache_root() if root is None else root
        self._models = self.root / "models"

    def get(self, key: str) -> Path | None:
        path = self._models / key
        return path if path.is_dir() else None

    def entries(self) -> list[Path]:
        directories = filter(Path.is_dir, self._models.glob("*"))
        return sorted(path for path in directories if path.suffix != _PARTIAL)

    def get_or_create(
        self, key: str, fill: Callable[[Path], None], *, origin: str, progress: Progress
    ) -> Path:
        """Return the entry's directory; if there is no entry, create it with `fill`.

        origin: what it is made from, as text for the user

        Raises `ModelError` if the cache cannot be written, for example because the disk is full.
        """
        if (found := self.get(key)) is not None:
            return found
        path, partial = self._models / key, self._models / f"{key}{_PARTIAL}"
        try:
            with self._lock(key, progress):
                if not path.is_dir():  # otherwise, it was made while we waited for the lock
                    shutil.rmtree(partial, ignore_errors=True)
                    partial.mkdir(parents=True)
                    try:
                        fill(partial)
                        (partial / _ORIGIN_FILE).write_text(json.dumps({"origin": origin}) + "\n")
                        partial.rename(path)
                    finally:
                        shutil.rmtree(partial, ignore_errors=True)
        except OSError as error:
            # Explain only errors of files in the cache; the user's source file can fail too.
            is_ours = str(error.filename).startswith(str(self.root))
            if not is_ours and error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise ModelError(
                f"The model cache {self.root} cannot be written ({error.strerror}): free some"
                " space, or set MINIVLLM_CACHE to a writable directory on a larger disk."
            ) from error
        return path

    def _lock(self, key: str, progress: Progress) -> TextIO:
        """Return the open file that holds the lock; closing it releases the lock."""
        directory = self.root / "locks"
        directory.mkdir(parents=True, exist_ok=True)
        file = open(directory / f"{key}.lock", "w")  # noqa: SIM115 - the caller closes it
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            progress(f"Waiting for another process that is preparing {key}.")
            flock(file, LOCK_EX)
        return file


def read_origin(entry: Path) -> str | None:
    """Return what an entry was made from; None if that is unknown or `entry` is no entry."""
    try:
        return str(json.loads((entry / _ORIGIN_FILE).read_text())["origin"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # the origin is only a label: damage to it must not hide the entry
