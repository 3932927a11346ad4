"""A hook of mkdocs: the playground's Python, the torch-free part of minivllm, and the traces.

assets/pyodide/            Pyodide and msgspec, if `tools/site/fetch_pyodide.py` has fetched them
assets/playground/         engine.zip: the part of minivllm that runs there
                           traces.json: requests of the recordings, with their options

mkdocs itself never uses the network.
"""

import logging
import shutil
import sys
import zipfile
from pathlib import Path

import msgspec
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fetch_pyodide import FILES, VENDORED, WHEEL, is_fetched

from minivllm.lab.playground.side import options_of
from minivllm.lab.race.recorded import read_recorded_run

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "docs/assets/recordings"
ASSETS = "assets/playground"
PYTHON = "assets/pyodide"

log = logging.getLogger("mkdocs.hooks.playground_files")

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
    "structured_outputs_params",
    "text",
    "lab/__init__",
    "lab/bench/__init__",
    "lessons/__init__",
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


def write_engine(path: Path) -> None:
    """Write engine.zip. Equal sources give equal bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in engine_files():
            entry = zipfile.ZipInfo(file.as_posix(), date_time=(2026, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, (ROOT / file).read_bytes())


def traces() -> bytes:
    """JSON: name, title, options and requests of each trace."""
    found = []
    for name, title in TRACES.items():
        run = read_recorded_run(RECORDINGS / f"{name}.jsonl")
        options = options_of(run.header)
        found.append({"name": name, "title": title, "options": options, "run": run})
    return msgspec.json.encode(found)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    if files.get_file_from_path("playground.md") is not None:
        files.append(File.generated(config, f"{ASSETS}/traces.json", content=traces()))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    if (site / ASSETS).is_dir():  # not in a small site of the tests
        write_engine(site / ASSETS / "engine.zip")
        add_python(site)


def add_python(site: Path) -> None:
    """Copy Pyodide and msgspec into the site, if they have been fetched."""
    if not is_fetched():
        log.info("The playground has no Python: tools/site/fetch_pyodide.py fetches it.")
        return
    (site / PYTHON).mkdir(exist_ok=True)
    for name in (*FILES, WHEEL):
        shutil.copyfile(VENDORED / name, site / PYTHON / name)
