"""`python tools/gpu_report/tables.py [DIR]`: writes a GPU report to the docs, README and lesson 12.

    python tools/gpu_report/tables.py report
        take the stages of the folder `report`, and write everything again
    python tools/gpu_report/tables.py
        write everything again from docs/measured/gpu

Stages are stored in docs/measured/gpu/STAGE.json; a stage that DIR lacks keeps its stored file. The
stored files determine the marked regions of the pages (`regions`),
lessons/shown/measured_kernels.json and docs/assets/gpu-step.svg (`picture`). On an error nothing is
written, and the exit status is 2.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel_regions import LESSON_AT, copy_speed, kernel_versions
from picture import draw_steps
from region_text import MissingError, Stage
from regions import REGIONS
from step_regions import PICTURED_BATCH

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("tests", "kernels", "tune", "engine", "profile", "demo")
MEASURED = "docs/measured/gpu"
PAGES = ("docs/use/performance.md", "docs/use/gpu.md", "README.md", "README.zh.md")
MEASURED_KERNELS = "lessons/shown/measured_kernels.json"
PICTURE = "docs/assets/gpu-step.svg"
PICTURED = {
    f"graphs/{PICTURED_BATCH}": "with CUDA graphs",
    f"eager/{PICTURED_BATCH}": "without (enforce_eager)",
}
REGION = re.compile(r"(<!-- gpu: (?P<name>[\w-]+) -->)(?P<text>.*?)(<!-- end gpu -->)", re.DOTALL)


class TablesError(Exception):
    """Nothing can be written; the message says why, in one sentence."""


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """root: the repository to read and write"""
    parser = argparse.ArgumentParser(prog="tables", description="Put a GPU report into the docs.")
    parser.add_argument(
        "dir",
        nargs="?",
        type=Path,
        metavar="DIR",
        help=f"folder of a GPU report (default: {MEASURED})",
    )
    args = parser.parse_args(arguments)
    try:
        stages = read_stages(root / MEASURED)
        if args.dir is not None:
            stages |= _new_stages(args.dir)
        outputs = make_files(stages, root)
    except TablesError as error:
        print(error, file=sys.stderr)
        return 2
    for name, text in outputs.items():
        path = root / name
        if text is None:
            path.unlink(missing_ok=True)
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return 0


def read_stages(folder: Path) -> dict[str, Stage]:
    """Read the stages of a folder. Raises `TablesError` if a file is not a stage's file."""
    paths = ((stage, folder / f"{stage}.json") for stage in STAGES)
    return {stage: _read_stage(path) for stage, path in paths if path.exists()}


def _read_stage(path: Path) -> Stage:
    try:
        stage = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TablesError(
            f"{path} is not JSON ({error}): use the file that the stage has written."
        ) from error
    if not isinstance(stage, dict) or not isinstance(stage.get("rows"), list):
        raise TablesError(f"{path} has no list of rows: use the file that the stage has written.")
    return stage


def _new_stages(folder: Path) -> dict[str, Stage]:
    """Read new stages. Raises `TablesError` if the folder is empty or is from a dry run."""
    stages = read_stages(folder)
    if not stages:
        raise TablesError(
            f"{folder} has no file of a stage: create one with python tools/gpu_report --out"
            f" {folder}."
        )
    for name, stage in stages.items():
        if stage.get("dry_run"):
            raise TablesError(
                f"{folder / name}.json is from a dry run, whose times are meaningless: use a"
                " report without --dry-run."
            )
    # Leave out a stage that failed before its first row.
    return {name: _reduced(stage) for name, stage in stages.items() if stage["rows"]}


def _reduced(stage: Stage) -> Stage:
    return stage | {
        "rows": [
            {
                name: value
                for name, value in row.items()
                if name != "timeline" or row["key"] in PICTURED
            }
            for row in stage["rows"]
        ]
    }


def make_files(stages: dict[str, Stage], root: Path) -> dict[str, str | None]:
    """For each path, relative to the root, the file's new content; None removes the file."""
    outputs: dict[str, str | None] = {
        f"{MEASURED}/{name}.json": _dump(stage) for name, stage in stages.items()
    }
    for page in PAGES:
        outputs[page] = _fill((root / page).read_text(encoding="utf-8"), stages, page)
    for name, stage, make in (
        (MEASURED_KERNELS, "kernels", _measured_kernels),
        (PICTURE, "profile", _picture),
    ):
        outputs[name] = _make(make, stage, stages[stage]) if stage in stages else None
    return outputs


def _make(make: Callable[[Stage], str | None], name: str, stage: Stage) -> str | None:
    """Make a text from a stage. Raises `TablesError` if the stage's file lacks a value."""
    try:
        return make(stage)
    except MissingError as error:
        raise TablesError(str(error)) from error
    except (LookupError, TypeError, ValueError) as error:
        raise TablesError(
            f"{name}.json or one of its rows lacks what the pages need ({type(error).__name__}:"
            f" {error}): run python tools/gpu_report {name} again, into another folder."
        ) from error


def _fill(page: str, stages: dict[str, Stage], name: str) -> str:
    def text_of(match: re.Match[str]) -> str:
        if match["name"] not in REGIONS:
            raise TablesError(
                f"{name} has a region {match['name']!r}: choose from {', '.join(REGIONS)}."
            )
        stage, make, not_measured = REGIONS[match["name"]]
        text = _make(make, stage, stages[stage]) if stage in stages else not_measured(stage)
        # Add no line breaks to a region inside a line, such as in a table cell.
        around = "\n\n" if match["text"].startswith("\n") else ""
        return f"{match[1]}{around}{text}{around}{match[4]}"

    return REGION.sub(text_of, page)


def _measured_kernels(kernels: Stage) -> str | None:
    """The data of lesson 18; None if nothing was measured at the lesson's shapes."""
    copy = copy_speed(kernels)
    ladders = {at: kernel_versions(kernels, at) for at in LESSON_AT}
    if not any(ladders.values()):
        return None
    measured = {
        "device": kernels["environment"]["device"]["name"],
        "date": kernels["began"][:10],
        "copy_gb_per_s": copy,
        "ladders": [
            {
                "batch": batch,
                "context": context,
                "versions": [_kernel_version(row, copy) for row in rows],
            }
            for (batch, context), rows in ladders.items()
            if rows
        ],
    }
    return json.dumps(measured, indent=1) + "\n"


def _kernel_version(row: dict[str, Any], copy_gb_per_s: float) -> dict[str, Any]:
    return {
        "name": row["name"],
        "microseconds": row["seconds"] * 1e6,
        "gb_per_s": row["gb_per_s"],
        "share_of_copy": row["gb_per_s"] / copy_gb_per_s,
        "microseconds_in_a_row": row["seconds_in_a_row"] * 1e6,
    }


def _picture(profile: Stage) -> str | None:
    rows = {row["key"]: row for row in profile["rows"]}
    panels = [
        (f"{rows[key]['batch']} sequences, {words}", rows[key]["timeline"])
        for key, words in PICTURED.items()
        if key in rows
    ]
    return draw_steps(panels) if panels else None


def _dump(stage: Stage) -> str:
    """Format a stage as JSON with one row per line, for readable diffs."""
    head: dict[str, Any] = {name: value for name, value in stage.items() if name != "rows"}
    rows = ",\n".join(json.dumps(row) for row in stage["rows"])
    return json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + rows + "\n]}\n"


if __name__ == "__main__":
    sys.exit(main())
