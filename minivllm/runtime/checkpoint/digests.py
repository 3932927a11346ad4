"""`SHA256SUMS`: digests beside the files of a checkpoint, in the format of `sha256sum`."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from minivllm.errors import ModelIntegrityError

DIGESTS = "SHA256SUMS"


def write_digests(folder: Path, names: Iterable[str]) -> None:
    """Write `SHA256SUMS` for files of `folder`."""
    lines = [f"{_digest(folder / name)}  {name}\n" for name in names]
    (folder / DIGESTS).write_text("".join(lines), encoding="utf-8")


def changed_file(folder: Path, names: Iterable[str]) -> Path | None:
    """Return the first of the files that is missing or does not have its digest."""
    expected = _read_digests(folder)
    return next(
        (folder / name for name in names if expected.get(name) != _digest(folder / name)), None
    )


def check_digests(folder: Path) -> None:
    """Raise `ModelIntegrityError` if a file is not the one whose digest `SHA256SUMS` has.

    Without that file nothing is checked. With it, the weights are read once more: 1.3 seconds per
    GiB. Listed files that are not there are no error: a list can name files that no engine reads.
    """
    names = [name for name in _read_digests(folder) if (folder / name).is_file()]
    if (file := changed_file(folder, names)) is not None:
        raise ModelIntegrityError(
            f"{file} does not have the digest that {DIGESTS} beside it states: copy the model"
            f" again, or delete {DIGESTS} if you changed the file yourself."
        )


def _digest(file: Path) -> str | None:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return None


def _read_digests(folder: Path) -> dict[str, str]:
    """Return file name -> digest, without files of other folders."""
    try:
        lines = (folder / DIGESTS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return {}
    # `sha256sum --binary` writes ` *` where the text mode has two spaces.
    listed = ((line[:64], line[66:]) for line in lines)
    return {name: digest for digest, name in listed if name == Path(name).name}
