"""A made-up GPU report: the stage files of a GPU machine, with round numbers."""

import json
from pathlib import Path
from typing import Any

ENVIRONMENT = {
    "versions": {
        "python": "3.12.3", "minivllm": "0.1.0", "torch": "2.11.0", "triton": "3.6.0",
        "transformers": "5.17.0", "numpy": "2.3.5",
    },
    "device": {
        "name": "Made-up GPU", "driver": "1.2.3", "compute_capability": "9.0",
        "memory_bytes": 80 << 30, "multiprocessors": 132,
    },
    "clocks": {"before": None, "after": None},
    "machine": {"cpu": "Made-up CPU", "cores": 16, "system": "Linux x86_64"},
    "commit": None,
}  # fmt: skip


class HandClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds


def stage(name: str, rows: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    head = {
        "stage": name,
        "status": "done",
        "error": None,
        "began": "2026-01-02T03:04:05+00:00",
        "seconds": 60.0,
    }
    return {**head, "dry_run": False, "environment": ENVIRONMENT, "rows": rows, **changes}


def write_report(folder: Path, *stages: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for one in stages:
        (folder / f"{one['stage']}.json").write_text(json.dumps(one))
    return folder
