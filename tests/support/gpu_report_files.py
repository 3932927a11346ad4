"""A made-up GPU report: the stage files of a GPU machine, with round numbers."""

import json
from pathlib import Path
from typing import Any

ENVIRONMENT = {
    "versions": {"python": "3.12.3", "minivllm": "0.1.0", "torch": "2.11.0", "triton": "3.6.0"},
    "device": {"name": "Made-up GPU", "compute_capability": "9.0", "memory_bytes": 80 << 30},
    "clocks": {"before": None, "after": None},
    "machine": {"cpu": "Made-up CPU", "cores": 16, "system": "Linux x86_64"},
    "commit": None,
}


class HandClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds


def stage(name: str, rows: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    head = {"stage": name, "status": "done", "error": None, "began": "2026-01-02T03:04:05+00:00"}
    about = {"seconds": 60.0, "dry_run": False, "environment": ENVIRONMENT}
    return {**head, **about, "rows": rows, **changes}


def write_report(folder: Path, *stages: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for content in stages:
        (folder / f"{content['stage']}.json").write_text(json.dumps(content))
    return folder
