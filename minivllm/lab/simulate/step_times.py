"""Reads measured steps (token counts and seconds) from the output of `minivllm bench step --json`.

People often save the bench's whole output, in which only the last line is JSON. So that line is
parsed alone if the whole file is not JSON.
"""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from minivllm.errors import SimulationError
from minivllm.lab.bench.step.points import StepPoint

REMEDY = "create one with `minivllm bench step --json > FILE`"


class StepTimes(msgspec.Struct):
    points: Annotated[list[StepPoint], Meta(min_length=1)]
    model: str | None = None
    dtype: str | None = None
    note: str | None = None
    threads: int | None = None
    machine: dict[str, str | int | float | None] = {}
    versions: dict[str, str] = {}

    @property
    def label(self) -> str:
        """Model, machine and versions: without them, times cannot be compared."""
        threads = None if self.threads is None else f"{self.threads} threads"
        parts = [self.model, self.dtype, self.note, threads, self.machine.get("cpu")]
        parts += [f"{package} {version}" for package, version in self.versions.items()]
        named = [str(part) for part in parts if part]
        return ", ".join(named) or "a machine without a name in the file"


def read_step_times(path: Path | None) -> StepTimes:
    """Read the steps of a file; None reads the package's default. Raises `SimulationError`."""
    file = files(__package__).joinpath("step_times.json") if path is None else path
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SimulationError(f"--step-times {path} cannot be read ({why}): {REMEDY}.") from error
    try:
        return msgspec.convert(_json(text), StepTimes)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise SimulationError(f"{path} has no measured steps ({error}): {REMEDY}.") from error


def _json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return msgspec.json.decode(text.rstrip().rpartition("\n")[2])
