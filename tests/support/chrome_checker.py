"""A strict reader of Chrome traces: fails on anything that a viewer would draw wrong or drop.

It is stricter than the format: times are whole microseconds, a slice lasts at least 1 us, and
every track has a name.
"""

import json
from collections import defaultdict
from dataclasses import dataclass

NUMBERS = ("ts", "pid", "tid")
PHASES = set("XiCM")


@dataclass
class Slice:
    """An `X` record."""

    name: str
    start: int
    end: int
    depth: int
    args: dict


class CheckedTrace:
    """The parts of a trace that passed every check."""

    def __init__(self, data: bytes) -> None:
        whole = json.loads(data)
        assert set(whole) == {"displayTimeUnit", "traceEvents", "otherData"}
        self.about: dict = whole["otherData"]
        self.records: list[dict] = whole["traceEvents"]
        for record in self.records:
            assert record["ph"] in PHASES and record["name"], record
            assert all(type(record[key]) is int and record[key] >= 0 for key in NUMBERS), record
        # A viewer sorts by time and keeps file order for equal times.
        self._sorted = sorted(self.records, key=lambda record: record["ts"])
        self.tracks = self._names()
        self.slices = self._slices()
        self.instants = self.of("i")
        for record in self.instants:
            assert record["s"] == "t" and record["tid"] in self.tracks, record
        for record in self.of("C"):
            assert {type(value) for value in record["args"].values()} == {int}, record

    def of(self, ph: str) -> list[dict]:
        return [record for record in self._sorted if record["ph"] == ph]

    def track(self, name: str) -> list[Slice]:
        (tid,) = (tid for tid, named in self.tracks.items() if named == name)
        return self.slices.get(tid, [])

    def counter(self, name: str, ts: int) -> dict[str, int]:
        """Value of a counter just after `ts`."""
        counted = [record for record in self.of("C") if record["name"] == name]
        return [record["args"] for record in counted if record["ts"] <= ts][-1]

    def _names(self) -> dict[int, str]:
        named = defaultdict(list)
        for record in self.of("M"):
            named[record["name"]].append(record)
        ranks = [record["args"]["sort_index"] for record in named["thread_sort_index"]]
        tracks = {record["tid"]: record["args"]["name"] for record in named["thread_name"]}
        assert ranks == sorted(ranks) and len(named["process_name"]) == 1
        assert len(tracks) == len(named["thread_name"]) == len(ranks) == len(set(tracks.values()))
        return tracks

    def _slices(self) -> dict[int, list[Slice]]:
        """Slices by track. A nested slice lies inside its parent, and neighbours do not overlap."""
        tracks: dict[int, list[Slice]] = defaultdict(list)
        open_: dict[int, list[Slice]] = defaultdict(list)
        for record in self.of("X"):
            assert type(record["dur"]) is int and record["dur"] >= 1, record
            assert record["tid"] in self.tracks, record
            stack = open_[record["tid"]]
            start, end = record["ts"], record["ts"] + record["dur"]
            while stack and stack[-1].end <= start:
                stack.pop()
            assert not stack or end <= stack[-1].end, f"{record} overlaps the end of {stack[-1]}"
            stack.append(Slice(record["name"], start, end, len(stack), record["args"]))
            tracks[record["tid"]].append(stack[-1])
        return tracks
