"""Isolation for student code with `bubblewrap`, if it is installed and works.

Isolated code has no network, and can write only to the scratch folder. bubblewrap needs namespaces,
which many containers forbid, so it is tried once. If the trial fails, the code runs without
isolation, and `notice` returns a warning.
"""

import shutil
import subprocess
from functools import cache

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
    return (
        f"bubblewrap is installed but cannot run here ({complaint}), so the code under test"
        " is not isolated from the network and the files."
    )


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
