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

from fetch_pyodide import FILES, VENDORED, WHEEL, is_fetched

from minivllm.lab.race.recorded import read_recorded_run
from minivllm.lab.race.rerun import options_of

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "docs/assets/recordings"
ASSETS = "assets/playground"
PYTHON = "assets/pyodide"

TRACES = {
    "burst": "A burst: twelve requests at once",
    "memory-pressure": "Memory pressure: four stories in twenty blocks",
    "shared-prefix": "A shared prefix: eight questions on one text",
    "long-and-short": "One long prompt among short ones",
    "parallel-sampling": "Parallel sampling: several samples of one prompt",
}
"""Recording -> what the page calls it."""

FOLDERS = (
    "core",
    "engine",
    "events",
    "lab/bench/step",
    "lab/common",
    "lab/compare",
    "lab/playground",
    "lab/race",
    "lab/simulate",
    "lessons/checker",
    "lessons/exercises",
    "lessons/shown",
    "speculation",
    "structured_output",
)
"""Folders of minivllm that run without torch, or whose parts with torch are imported late."""
MODULES = (
    "__init__",
    "checks",
    "clock",
    "config",
    "configurations",
    "errors",
    "outputs",
    "sampling_params",
    "text",
    "version",
    "lab/__init__",
    "lab/bench/__init__",
    "lessons/__init__",
    "lessons/scenarios/__init__",
    "lessons/scenarios/scripted",
    "runtime/__init__",
    "runtime/step_result",
)


def engine_files() -> list[Path]:
    """The files of engine.zip, relative to the repository."""
    package = ROOT / "minivllm"
    found = [package / f"{name}.py" for name in MODULES]
    for folder in FOLDERS:
        found += sorted((package / folder).rglob("*.py"))
    # Mistakes stay at home. But "find the bug" needs its recording, and wrong answers.
    exercises = package / "lessons/exercises"
    found += [exercises / "info.toml", *sorted(exercises.glob("bug_*/recording.jsonl"))]
    found += sorted(exercises.glob("bug_*/mistakes.toml"))
    return [file.relative_to(ROOT) for file in dict.fromkeys(found)]


def engine() -> bytes:
    """engine.zip. Equal sources give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in engine_files():
            entry = zipfile.ZipInfo(file.as_posix(), date_time=(2026, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, (ROOT / file).read_bytes())
    return buffer.getvalue()


def traces() -> bytes:
    """JSON: name, title, options and requests of each trace."""
    found = []
    for name, title in TRACES.items():
        run = read_recorded_run(RECORDINGS / f"{name}.jsonl")
        options = options_of(run.header)
        found.append({"name": name, "title": title, "options": options, "run": run})
    return msgspec.json.encode(found)


def files() -> Iterator[tuple[str, bytes]]:
    """Name below docs/ and content of each file; without Pyodide if it has not been fetched."""
    yield f"{ASSETS}/traces.json", traces()
    yield f"{ASSETS}/engine.zip", engine()
    for name in (*FILES, WHEEL) if is_fetched() else ():
        yield f"{PYTHON}/{name}", (VENDORED / name).read_bytes()
