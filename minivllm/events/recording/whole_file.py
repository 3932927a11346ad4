"""`whole_file`: writes a file completely or not at all.

The data goes into a temporary file, which replaces the target at the end. Recordings use
`LogWriter` instead, since readers may open a recording while it grows.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to write. On failure, leave `path` unchanged and raise `OSError` with its name.

    A device, a pipe, or a file in a read-only folder is written in place, and may be incomplete
    after a failure.
    """
    target = Path(os.path.realpath(path))  # the target of a link, not the link
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        # Open it by `path`: a pipe's resolved name, as of /dev/stdout, cannot be opened.
        in_place = (os.path.exists(path) and not os.path.isfile(path)) or not os.access(
            target.parent, os.W_OK
        )
        with open(path if in_place else beside, "wb") as file:
            yield file
        if not in_place:
            if target.exists():
                shutil.copymode(target, beside)
            os.replace(beside, target)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None
        raise


def write_whole(path: str | Path, data: bytes | str) -> None:
    """Write `data` with `whole_file`. Text is written as UTF-8."""
    with whole_file(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)
