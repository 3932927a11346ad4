"""`whole_file`: writes a file whole or not at all.

The data goes into a file beside it, which takes its name once everything is there. A disk that
fills up or a Ctrl-C in the middle leaves what was there before. A recording cannot be written like
this, since others read it while it grows: that is `LogWriter`.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write into; raises `OSError` that names `path`, which then is as it was."""
    target = Path(os.path.realpath(path))  # the file that a link names, not the link
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        # A device or a pipe takes what it gets, and where no file can be put beside it there is
        # only the file itself. A pipe's own name, to which /dev/stdout leads, cannot be opened.
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
    """Write `data`, text as UTF-8; see `whole_file`."""
    with whole_file(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)
