"""The walls around student code: `bubblewrap`, where it is installed and the system lets it work.

Behind them there is no network, and nothing can be written but the scratch folder. Nothing here
knows what runs behind them.

The easy thing to get wrong is to take "installed" for "works": bubblewrap needs namespaces, and
many a container may not make any. So it is tried once, and where it fails, that is said (`notice`)
and the code runs without walls, as where it is missing.
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
    """What stands before the command of a process that may write into `scratch` alone; nothing
    where there are no walls.
    """
    found = program()
    if found is None:
        return []
    return [found, *_NEW_WORLD, "--bind", scratch, scratch, "--chdir", scratch]


def program() -> str | None:
    """bubblewrap's path where it works."""
    found = shutil.which("bwrap")
    return found if found is not None and not _complaint(found) else None


def notice() -> str | None:
    """One sentence where bubblewrap is installed and of no use: whoever installed it relies on
    it.
    """
    found = shutil.which("bwrap")
    complaint = "" if found is None else _complaint(found)
    if not complaint:
        return None
    return (
        f"bubblewrap is installed but cannot run here ({complaint}), so the code under test is not"
        " kept from network and files."
    )


@cache
def _complaint(found: str) -> str:
    """Its own last words where it cannot run `true`; empty where it can."""
    try:
        trial = subprocess.run([found, *_NEW_WORLD, "true"], capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    if trial.returncode == 0:
        return ""
    last_words = trial.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return last_words or f"exit status {trial.returncode}"
