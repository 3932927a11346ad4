"""Reads measured steps (token counts and seconds) from the output of `minivllm bench step --json`.

People often save the bench's whole output, in which only the last line is JSON. So that line is
parsed alone if the whole file is not JSON.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from minivllm.errors import SimulationError
from minivllm.lab.bench.step.points import StepPoint

REMEDY = "create one with `minivllm bench step --json > FILE`"
COUNTS = ("num_scheduled_tokens", "num_decodes", "num_prefill_tokens", "num_context_tokens")


@dataclass(frozen=True, slots=True)
class StepTimes:
    points: tuple[StepPoint, ...]
    label: str
    """Model, machine and versions: without them, times cannot be compared."""


def read_step_times(path: Path | None) -> StepTimes:
    """Read the steps of a file; None reads the package's default. Raises `SimulationError`."""
    if path is None:
        default = files(__package__).joinpath("step_times.json")
        return _parse(default.read_text(encoding="utf-8"), "the default step times")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SimulationError(f"--step-times {path} cannot be read ({why}): {REMEDY}.") from error
    return _parse(text, str(path))


def _parse(text: str, name: str) -> StepTimes:
    lines = text.strip().splitlines() or [""]
    for candidate in (text, lines[-1]):
        try:
            content = json.loads(candidate)
            break
        except ValueError:
            continue
    else:
        raise SimulationError(f"{name} is not JSON: {REMEDY}.")
    points = content.get("points") if isinstance(content, dict) else None
    if not isinstance(points, list) or not points:
        raise SimulationError(f'{name} has no list "points" of measured steps: {REMEDY}.')
    return StepTimes(
        tuple(_point(point, number, name) for number, point in enumerate(points, 1)),
        _label(content),
    )


def _point(entry: object, number: int, name: str) -> StepPoint:
    if isinstance(entry, Mapping):
        counts = [entry.get(key) for key in COUNTS]
        seconds = entry.get("seconds")
        whole = all(type(count) is int and count >= 0 for count in counts)
        if whole and type(seconds) in (int, float) and math.isfinite(seconds) and seconds > 0:
            return StepPoint(*counts, float(seconds))
    raise SimulationError(
        f"Point {number} of {name} must have whole numbers {', '.join(COUNTS)} and seconds above"
        f" 0: {REMEDY}."
    )


def _label(content: Mapping[str, object]) -> str:
    machine, versions = content.get("machine"), content.get("versions")
    parts = [content.get("model"), content.get("dtype"), content.get("note")]
    if isinstance(content.get("threads"), int):
        parts.append(f"{content['threads']} threads")
    if isinstance(machine, Mapping):
        parts.append(machine.get("cpu"))
    if isinstance(versions, Mapping):
        parts += [f"{package} {version}" for package, version in versions.items()]
    return ", ".join(str(part) for part in parts if part) or "a machine without a name in the file"
