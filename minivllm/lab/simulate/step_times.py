"""Times of steps: `StepTimeModel` predicts them, `read_step_times` reads measured ones.

    seconds = constant + f(tokens) + a * decodes + b * context tokens

`f` is linear between a few knots, because up to about sixteen tokens, reading the weights takes
most of the time, and with more, arithmetic does. `fit` finds the coefficients; it needs numpy, and
this file does not, so that a browser can use a fit that was made elsewhere.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from minivllm.errors import SimulationError
from minivllm.lab.bench.step.points import StepPoint

KNOTS = (1, 4, 16, 64, 256, 1024)
"""Tokens per step at which the slope of `f` can change."""
IDLE_SECONDS = 0.001
"""Duration of a step in which nothing could run, as in `MonotonicClock.idle`."""


class StepTimeModel:
    def __init__(self, coefficients: Seq[float], max_tokens: int) -> None:
        constant, *slopes, self.per_decode, self.per_context_token = (
            float(coefficient) for coefficient in coefficients
        )
        # `seconds` is called about a million times, so `constant + f(tokens)` is a table.
        self._by_tokens = [
            constant
            + sum(
                slope * min(max(tokens - low, 0), high - low)
                for slope, (low, high) in zip(slopes, pairwise((*KNOTS, inf)), strict=True)
            )
            for tokens in range(max_tokens + 1)
        ]

    def seconds(self, num_tokens: int, num_decodes: int, num_context_tokens: int) -> float:
        """Predict a step's time. num_tokens: all tokens of the step, from 1 to `max_tokens`"""
        return (
            self._by_tokens[num_tokens]
            + self.per_decode * num_decodes
            + self.per_context_token * num_context_tokens
        )

    def predict(self, point: StepPoint) -> float:
        """Predict the time of a step with the contents of `point`."""
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
        threads = None if self.threads is None else f"{self.threads} threads"
        parts = [self.model, self.dtype, self.note, threads, self.machine.get("cpu")]
        packages = ("python", "minivllm", "torch")
        parts += [f"{name} {self.versions[name]}" for name in packages if name in self.versions]
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
    # People often save the bench's whole output, in which only the last line is JSON.
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return msgspec.json.decode(text.rstrip().rpartition("\n")[2])
