"""`Arrival`: one simulated request. `read_arrivals` reads a file of them, JSON Lines or CSV.

    arrival,prompt_tokens,output_tokens,prefix_group,prefix_tokens,priority
    0.00,420,64,support,256,0

`arrival` is in seconds. All arrivals are shifted so that the first request arrives at 0. The last
three columns are optional. A line that cannot be parsed raises an error: without it, the simulated
load would be too small.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from minivllm.checks import Positive
from minivllm.errors import SimulationError
from minivllm.lab.simulate.step_times import read_text


class Arrival(msgspec.Struct, frozen=True):
    at: Annotated[float, Meta(gt=-1e300, lt=1e300)] = msgspec.field(name="arrival")  # seconds
    prompt_tokens: Positive  # including the shared prefix
    output_tokens: Positive
    prefix_group: str | int | float | None = None  # after reading: a number from 0
    """Requests of one group start with the same `prefix_tokens` tokens."""
    prefix_tokens: Annotated[int, Meta(ge=0)] = 0
    priority: Annotated[int, Meta(ge=0)] = 0

    def __post_init__(self) -> None:
        if self.prefix_group is not None and not 0 < self.prefix_tokens <= self.prompt_tokens:
            limits = f"from 1 to prompt_tokens ({self.prompt_tokens})"
            raise ValueError(f"prefix_tokens ({self.prefix_tokens}) must be {limits}")

    def prompt(self, number: int) -> list[int]:
        """Tokens that share only the prefix, and only with requests of the same group."""
        num_shared = 0 if self.prefix_group is None else self.prefix_tokens
        # A group's token id counts down from the largest id that a block's hash supports.
        shared = [2**32 - 1 - (self.prefix_group or 0)] * num_shared
        return shared + [number + 1] * (self.prompt_tokens - num_shared)


def read_arrivals(path: Path) -> list[Arrival]:
    """Return the requests of a file in order of arrival.

    Raises `SimulationError` if the file cannot be read or parsed, or has no request.
    """
    remedy = "name another file, or use poisson or bursty"
    text = read_text(path, f"The arrival file {path}", remedy)
    groups: dict[str, int] = {}
    found = []
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    for number, fields in lines if text.lstrip().startswith("{") else _rows(text, path):
        try:
            if isinstance(fields, str):
                fields = msgspec.json.decode(fields)
            arrival = msgspec.convert(fields, Arrival, strict=False)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise SimulationError(f"{path}, line {number}: {error}.") from None
        if (group := arrival.prefix_group) is not None:
            arrival = replace(arrival, prefix_group=groups.setdefault(str(group), len(groups)))
        found.append(arrival)
    if not found:
        need = "it needs one line for each (arrival, prompt_tokens, output_tokens)"
        raise SimulationError(f"The arrival file {path} contains no requests: {need}.")
    found.sort(key=lambda arrival: arrival.at)
    return [replace(arrival, at=arrival.at - found[0].at) for arrival in found]


def _rows(text: str, path: Path) -> Iterator[tuple[int, Mapping[Any, str]]]:
    reader = csv.DictReader(text.splitlines())
    for fields in reader:
        if None in fields:  # csv stores surplus fields under None
            where = f"{path}, line {reader.line_num}"
            raise SimulationError(f"{where}: it has more fields than the first line has columns.")
        yield reader.line_num, {name: value for name, value in fields.items() if value}
