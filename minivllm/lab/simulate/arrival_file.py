"""Reads recorded arrivals: JSON Lines or CSV, one request per line.

    arrival,prompt_tokens,output_tokens,prefix_group,prefix_tokens,priority
    0.00,420,64,support,256,0

`arrival` is in seconds. All arrivals are shifted so that the first request arrives at 0. The last
three columns are optional. A line that cannot be parsed raises an error: without it, the simulated
load would be too small.
"""

import csv
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from minivllm.errors import SimulationError
from minivllm.lab.simulate.arrival import Arrival

NEEDED = ("arrival", "prompt_tokens", "output_tokens")
KNOWN = (*NEEDED, "prefix_group", "prefix_tokens", "priority")


def read_arrivals(path: Path) -> list[Arrival]:
    """Return the requests of a file in order of arrival.

    Raises `SimulationError` if the file cannot be read or parsed, or has no request.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SimulationError(
            f"The arrival file {path} cannot be read ({why}): name another file, or use poisson or"
            " bursty."
        ) from error
    groups: dict[str, int] = {}
    found = [
        _arrival(fields, f"{path}, line {number}", groups) for number, fields in _lines(text, path)
    ]
    if not found:
        raise SimulationError(
            f"The arrival file {path} contains no requests: it needs one line for each"
            f" ({', '.join(NEEDED)})."
        )
    found.sort(key=lambda arrival: arrival.at)
    return [arrival._replace(at=arrival.at - found[0].at) for arrival in found]


def _lines(text: str, path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    if text.lstrip().startswith("{"):
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield number, _json_fields(line, f"{path}, line {number}")
        return
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
    if missing and text.strip():
        raise SimulationError(
            f"The arrival file {path} has no column {', '.join(missing)}: its first line must name"
            f" {', '.join(KNOWN)} (the last three are optional)."
        )
    for fields in reader:
        if None in fields:  # csv stores surplus fields under None
            raise SimulationError(
                f"{path}, line {reader.line_num}: it has more fields than the first line has"
                " columns."
            )
        yield reader.line_num, fields


def _json_fields(line: str, where: str) -> Mapping[str, object]:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise SimulationError(f"{where}: this is not JSON; write one object per line.") from error
    if not isinstance(fields, dict):
        raise SimulationError(f"{where}: write one JSON object per line, with {', '.join(NEEDED)}.")
    return fields


def _arrival(fields: Mapping[str, object], where: str, groups: dict[str, int]) -> Arrival:
    at = _number(fields, "arrival", where)
    prompt, output = (_count(fields, name, where, low=1) for name in NEEDED[1:])
    priority = _count(fields, "priority", where, low=0, default=0)
    group = fields.get("prefix_group")
    if group in (None, ""):
        return Arrival(at, prompt, output, priority=priority)
    prefix = _count(fields, "prefix_tokens", where, low=1)
    if prefix > prompt:
        raise SimulationError(
            f"{where}: prefix_tokens ({prefix}) must not exceed prompt_tokens ({prompt})."
        )
    return Arrival(at, prompt, output, groups.setdefault(str(group), len(groups)), prefix, priority)


def _number(fields: Mapping[str, object], name: str, where: str) -> float:
    try:
        value = float(fields.get(name))  # type: ignore[arg-type]  # None is no number either
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value) or isinstance(fields.get(name), bool):
        raise SimulationError(f"{where}: {name} must be a number; got {fields.get(name)!r}.")
    return value


def _count(
    fields: Mapping[str, object], name: str, where: str, low: int, default: int | None = None
) -> int:
    if default is not None and fields.get(name) in (None, ""):
        return default
    value = _number(fields, name, where)
    if value != int(value) or value < low:
        raise SimulationError(
            f"{where}: {name} must be a whole number, at least {low}; got {fields.get(name)!r}."
        )
    return int(value)
