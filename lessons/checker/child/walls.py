"""A second wall around student code, besides `fence`: `bubblewrap`, if it is installed and works.

Isolated code has no network at all, and sees all files as read-only but those of the scratch
folder. bubblewrap needs namespaces, which many containers forbid, so it is tried once. If the trial
fails, the code runs without bubblewrap, and `notice` returns a warning.
"""

import shutil
import subprocess
import sys
from functools import cache

from minivllm.lessons.checker.child import fence

TRUNCATE_FROM, TCP_FROM = 3, 4
"""Versions of Landlock: the first that refuses to empty a file, and to open a connection."""

_NEW_WORLD = (
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--unshare-all",
    "--die-with-parent",
)


def before(scratch: str) -> list[str]:
    """The command prefix that limits a process to `scratch`; empty without bubblewrap."""
    found = program()
    if found is None:
        return []
    return [found, *_NEW_WORLD, "--bind", scratch, scratch, "--chdir", scratch]


def program() -> str | None:
    """The path of bubblewrap; None if it is missing or does not work."""
    found = shutil.which("bwrap")
    return found if found is not None and not _complaint(found) else None


def notice() -> str | None:
    """A warning if bubblewrap is installed but does not work; otherwise None."""
    found = shutil.which("bwrap")
    complaint = "" if found is None else _complaint(found)
    if not complaint:
        return None
    if landlock() >= TCP_FROM:
        left = "only Landlock keeps the code under test from files and connections"
    else:
        left = "the code under test is not isolated from the network"
    return f"bubblewrap is installed but cannot run here ({complaint}), so {left}."


@cache
def landlock() -> int:
    """Version of the Landlock that locks a child process, as a trial shows; 0 if none does."""
    lock = f"from {fence.__name__} import lock_writes_to; print(lock_writes_to('.'))"
    try:
        trial = subprocess.run([sys.executable, "-I", "-c", lock], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return fence.landlock_version() if trial.stdout == b"True\n" else 0


@cache
def _complaint(found: str) -> str:
    try:
        trial = subprocess.run([found, *_NEW_WORLD, "true"], capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    if trial.returncode == 0:
        return ""
    last_words = trial.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return last_words or f"exit status {trial.returncode}"
