"""Isolation for student code with `bubblewrap`, if it is installed and works.

Inside, there is no network and only the scratch folder is writable. bubblewrap needs namespaces,
which many containers forbid. So it is tried once; if that fails, `notice` reports it and the code
runs without isolation.
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
    """The command prefix for a process that can write only to `scratch`; may be empty."""
    found = program()
    if found is None:
        return []
    return [found, *_NEW_WORLD, "--bind", scratch, scratch, "--chdir", scratch]


def program() -> str | None:
    """bubblewrap's path, if it works."""
    found = shutil.which("bwrap")
    return found if found is not None and not _complaint(found) else None


def notice() -> str | None:
    """A warning if bubblewrap is installed but does not work."""
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
    """bubblewrap's error message if it cannot run `true`; may be empty."""
    try:
        trial = subprocess.run([found, *_NEW_WORLD, "true"], capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    if trial.returncode == 0:
        return ""
    last_words = trial.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return last_words or f"exit status {trial.returncode}"
