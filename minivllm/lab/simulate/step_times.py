"""Times of steps: `StepTimeModel` predicts them, `read_step_times` reads measured ones.

    seconds = constant + f(tokens) + a * decodes + b * context tokens

`f` is linear between a few knots, because up to about sixteen tokens, reading the weights takes
most of the time, and with more, arithmetic does. `fit` finds the coefficients; it needs numpy, and
this file does not, so that a browser can use a fit that was made elsewhere.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from minivllm.errors import SimulationError
from minivllm.lab.bench.step.points import StepPoint

KNOTS = (1, 4, 16, 64, 256, 1024)  # tokens per step at which the slope of `f` can change
IDLE_SECONDS = 0.001  # duration of a step in which nothing could run, as in `MonotonicClock.idle`


class StepTimeModel:
    def __init__(self, coefficients: Seq[float], max_tokens: int) -> None:
        constant, *slopes, self.per_decode, self.per_context_token = (
            float(coefficient) for coefficient in coefficients
        )
        # `seconds` is called about a million times, so `constant + f(tokens)` is a table.
        pieces = list(zip(slopes, pairwise((*KNOTS, inf)), strict=True))
        self._by_tokens = [
            constant
            + sum(slope * min(max(n - low, 0), high - low) for slope, (low, high) in pieces)
            for n in range(max_tokens + 1)
        ]

    def seconds(self, num_tokens: int, num_decodes: int, num_context_tokens: int) -> float:
        """Predict a step's time. num_tokens: all tokens of the step, from 1 to `max_tokens`"""
        return (
            self._by_tokens[num_tokens]
            + self.per_decode * num_decodes
            + self.per_context_token * num_context_tokens
        )

    def predict(self, point: StepPoint) -> float:
        return self.seconds(point.num_scheduled_tokens, point.num_decodes, point.num_context_tokens)


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients, and how well they predict points to which they were not fitted."""

    coefficients: tuple[float, ...]
    """In seconds: the constant, slopes between the knots, time per decode and context token."""
    num_points: int = 0
    r_squared: float = 1.0
    median_relative_error: float = 0.0
    p90_relative_error: float = 0.0

    def model(self, max_tokens: int) -> StepTimeModel:
        return StepTimeModel(self.coefficients, max_tokens)


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
        threads = f"{self.threads} threads" if self.threads else None
        parts = [self.model, self.dtype, self.note, threads, self.machine.get("cpu")]
        packages = ("python", "minivllm", "torch")
        parts += [f"{name} {self.versions[name]}" for name in packages if name in self.versions]
        return ", ".join(map(str, filter(None, parts))) or "a machine without a name in the file"


def read_step_times(path: Path | None) -> StepTimes:
    """Read the steps of a file; None reads the package's default. Raises `SimulationError`."""
    file = files(__package__).joinpath("step_times.json") if path is None else path
    text = read_text(file, f"--step-times {path}", REMEDY).strip()
    if not text.startswith("{"):  # the bench's whole output: only the last line is JSON
        text = text.rpartition("\n")[2]
    try:
        return msgspec.json.decode(text, type=StepTimes)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise SimulationError(f"{path} has no measured steps ({error}): {REMEDY}.") from error


def read_text(file: Traversable, what: str, remedy: str) -> str:
    """Raises `SimulationError` if the file cannot be read."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SimulationError(f"{what} cannot be read ({why}): {remedy}.") from error
