"""The playground's files: its Python, the torch-free part of minivllm, and the traces.

assets/pyodide/            Pyodide and msgspec, if `tools/site/fetch_pyodide.py` has fetched them
assets/playground/         engine.zip: the part of minivllm that runs there
                           traces.json: requests of the recordings, with their options
"""

import io
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fetch_pyodide import FILES, VENDORED, is_fetched
from page_text import DOCS, ROOT

from minivllm.lab.race.recorded import read_recorded_run
from minivllm.lab.race.rerun import options_of

TRACES = {
    "burst": "A burst: twelve requests at once",
    "memory-pressure": "Memory pressure: four stories in twenty blocks",
    "shared-prefix": "A shared prefix: eight questions on one text",
    "long-and-short": "One long prompt among short ones",
    "parallel-sampling": "Parallel sampling: several samples of one prompt",
}
"""Recording -> what the page calls it."""

RUNS_THERE = (
    "*.py", "core/*.py", "engine/*.py", "events/**/*.py", "kv_transfer/*.py", "lab/__init__.py",
    "lab/bench/__init__.py", "lab/bench/step/**/*.py", "lab/common/**/*.py", "lab/compare/**/*.py",
    "lab/playground/**/*.py", "lab/race/**/*.py", "lab/simulate/**/*.py", "lessons/__init__.py",
    "lessons/checker/**/*.py", "lessons/exercises/**/*.py", "lessons/exercises/info.toml",
    "lessons/shown/**/*.py", "lessons/scenarios/__init__.py", "lessons/scenarios/scripted.py",
    "runtime/__init__.py", "runtime/step_result.py", "speculation/*.py", "structured_output/*.py",
    # Mistakes stay at home. But "find the bug" needs its recording, and wrong answers.
    "lessons/exercises/bug_*/recording.jsonl", "lessons/exercises/bug_*/mistakes.toml",
)  # fmt: skip
"""Files of minivllm that run without torch, or whose parts with torch are imported late."""


def engine_files() -> list[Path]:
    """The files of engine.zip, relative to the repository."""
    package = ROOT / "minivllm"
    found = [file for pattern in RUNS_THERE for file in sorted(package.glob(pattern))]
    return [file.relative_to(ROOT) for file in dict.fromkeys(found)]


def engine() -> bytes:
    """engine.zip. Equal sources give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for file in engine_files():
            entry = zipfile.ZipInfo(file.as_posix(), date_time=(2026, 1, 1, 0, 0, 0))
            archive.writestr(entry, (ROOT / file).read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def traces() -> bytes:
    """JSON: name, title, options and requests of each trace."""
    runs = {name: read_recorded_run(DOCS / f"assets/recordings/{name}.jsonl") for name in TRACES}
    return msgspec.json.encode(
        [
            {"name": name, "title": TRACES[name], "options": options_of(run.header), "run": run}
            for name, run in runs.items()
        ]
    )


def files() -> Iterator[tuple[str, bytes]]:
    """Name below docs/ and content of each file; without Pyodide if it has not been fetched."""
    yield "assets/playground/traces.json", traces()
    yield "assets/playground/engine.zip", engine()
    for name in FILES if is_fetched() else ():
        yield f"assets/pyodide/{name}", (VENDORED / name).read_bytes()
