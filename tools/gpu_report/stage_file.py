"""`StageFile`: the one JSON file that a stage of the GPU report writes, whole again after every
row.

    {"stage", "status", "error", "began", "seconds", "dry_run", "environment", "rows": [{"key",
    "runs", ...}, ...]}

A stage that is killed in the middle leaves the rows that it had. A later run into the same folder
keeps rows that were measured on the same device with the same versions and the same commit, and
measures the others.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from minivllm.clock import Clock
from minivllm.events.recording.whole_file import write_whole

Status = Literal["running", "done", "out of time", "failed"]


class OutOfTimeError(Exception):
    """The stage's limit is reached, and no new row is begun."""


class StageFailedError(Exception):
    """The stage cannot be done, or something in it is wrong; a sentence that says what."""


class StageFile:
    """The rows of one stage, in memory and on disk."""

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
        """limit_s: seconds from now on after which no new row is begun"""
        self._path = path
        self._limit_s = limit_s
        self._clock = clock
        self._started = clock.now()
        earlier = read_stage(path)
        if earlier is not None and _measured_alike(earlier, environment, dry_run):
            # Rows without a measurement are tried again.
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
        """Whether the row has yet to be measured. Raises `OutOfTimeError` if it has, and the limit
        is reached.
        """
        if key in self.rows:
            return False
        self.check_time(f"before the row {key}")
        return True

    def check_time(self, where: str) -> None:
        """Raise `OutOfTimeError` if the limit is reached."""
        if self.seconds_left <= 0:
            raise OutOfTimeError(
                f"The limit of {self._limit_s:.0f} s was reached {where}: run the same command"
                " again to go on from here."
            )

    @property
    def seconds_left(self) -> float:
        """Until the limit; negative after it."""
        return self._started + self._limit_s - self._clock.now()

    def add(self, row: dict[str, Any]) -> None:
        """Take in a row and write the file. A row with the same key is replaced.

        row: `key`, and `runs` (the time of every run, in seconds) or `reason` (why there is no
        measurement)
        """
        self.rows[row["key"]] = {**row, "dry_run": True} if self._head["dry_run"] else row
        self._write("running", None)

    def end(
        self, status: Status, error: str | None, clocks: dict[str, float] | None = None
    ) -> None:
        """Write the last state. clocks: the device's, as they are now"""
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
    """A stage's file; None where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def mark_ended(path: Path, stage: str, status: Status, error: str) -> None:
    """Say for a stage's process, which could not do it itself, how it ended."""
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
