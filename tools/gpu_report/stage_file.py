"""`StageFile`: the JSON file of a stage of the GPU report, written again after every row.

    {"stage", "status", "error", "began", "seconds", "dry_run", "environment", "rows": [{"key",
    "runs", ...}, ...]}

A later run into the same folder keeps the rows if device, versions and commit are the same.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from minivllm.clock import Clock
from minivllm.events.recording.whole_file import write_whole

Status = Literal["running", "done", "out of time", "failed"]


class OutOfTimeError(Exception):
    """The stage's time limit is reached, so no new row is started."""


class StageFailedError(Exception):
    """The stage cannot run, or its results are wrong; the message says what."""


class StageFile:
    def __init__(
        self,
        path: Path,
        stage: str,
        environment: dict[str, Any],
        *,
        dry_run: bool,
        limit_s: float,
        clock: Clock,
    ) -> None:
        """limit_s: seconds, counted from now, after which no new row is started"""
        self._path = path
        self._limit_s = limit_s
        self._clock = clock
        self._started = clock.now()
        earlier = read_stage(path)
        if earlier is not None and _measured_alike(earlier, environment, dry_run):
            # Drop rows that have a reason in place of a result, so that they are measured again.
            self.rows = {row["key"]: row for row in earlier["rows"] if "reason" not in row}
            self._seconds_before: float = earlier["seconds"]
            began = earlier["began"]
        else:
            self.rows: dict[str, dict[str, Any]] = {}
            self._seconds_before = 0.0
            began = datetime.now(UTC).isoformat(timespec="seconds")
        self._head = {
            "stage": stage,
            "began": began,
            "dry_run": dry_run,
            "environment": environment,
        }
        self._write("running", None)

    def wants(self, key: str) -> bool:
        """Whether the row must still be measured. Raises `OutOfTimeError` after the limit."""
        if key in self.rows:
            return False
        self.check_time(f"before the row {key}")
        return True

    def check_time(self, where: str) -> None:
        if self.seconds_left <= 0:
            raise OutOfTimeError(
                f"The limit of {self._limit_s:.0f} s was reached {where}: run the same command"
                " again to continue from there."
            )

    @property
    def seconds_left(self) -> float:
        """Seconds until the time limit; negative after the limit."""
        return self._started + self._limit_s - self._clock.now()

    def add(self, row: dict[str, Any]) -> None:
        """Add or replace a row and write the file.

        row: `key`, and `runs` (seconds of each run) or `reason` (why there is no measurement)
        """
        self.rows[row["key"]] = {**row, "dry_run": True} if self._head["dry_run"] else row
        self._write("running", None)

    def end(
        self, status: Status, error: str | None, clocks: dict[str, float] | None = None
    ) -> None:
        """Write the final state. clocks: the device's current clocks"""
        if clocks is not None:
            self._head["environment"]["clocks"]["after"] = clocks
        self._write(status, error)

    def _write(self, status: Status, error: str | None) -> None:
        seconds = self._seconds_before + self._clock.now() - self._started
        stage = {
            **self._head,
            "status": status,
            "error": error,
            "seconds": seconds,
            "rows": [*self.rows.values()],
        }
        write_whole(self._path, json.dumps(stage, indent=1) + "\n")


def read_stage(path: Path) -> dict[str, Any] | None:
    """The file's content; None if there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def mark_ended(path: Path, stage: str, status: Status, error: str) -> None:
    """Record how a stage's process ended, if the process could not record this itself."""
    rest = read_stage(path) or {
        "stage": stage,
        "began": None,
        "seconds": 0.0,
        "environment": {},
        "rows": [],
    }
    write_whole(path, json.dumps({**rest, "status": status, "error": error}, indent=1) + "\n")


def _measured_alike(earlier: dict[str, Any], environment: dict[str, Any], dry_run: bool) -> bool:
    then = earlier["environment"]
    return (
        earlier.get("dry_run") == dry_run
        and then.get("versions") == environment["versions"]
        and then.get("commit") == environment["commit"]
        and (then.get("device") or {}).get("name") == (environment["device"] or {}).get("name")
    )
