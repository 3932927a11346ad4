"""A strict reader of Chrome traces: fails on anything that a viewer would draw wrong or drop.

It is stricter than the format: times are whole microseconds, a slice lasts at least 1 us, records
are sorted by time (except arrow starts), and every track has a name.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

NUMBERS = ("ts", "pid", "tid")
PHASES = set("XbeisfCM")


@dataclass
class Slice:
    """An `X` record, or a `b` record with its `e`."""

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
        in_order = [record["ts"] for record in self.records if record["ph"] != "s"]
        assert all(a <= b for a, b in pairwise(in_order)), "not in order of time"
        # A viewer sorts by time and keeps file order for equal times.
        self._sorted = sorted(self.records, key=lambda record: record["ts"])
        self.tracks = self._names()
        self.slices = self._slices()
        self.lives = self._lives()
        self.arrows = self._arrows()
        self.instants = self.of("i")
        for record in self.instants:
            assert record["s"] in ("t", "g") and record["tid"] in self.tracks, record
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

    def _lives(self) -> dict[int, list[Slice]]:
        """Asynchronous slices by id. Each ends by name, the innermost first."""
        lives: dict[int, list[Slice]] = defaultdict(list)
        open_: dict[int, list[Slice]] = defaultdict(list)
        for record in self._sorted:
            stack = open_[record["id"]] if record["ph"] in "be" else []
            if record["ph"] == "b":
                stack.append(Slice(record["name"], record["ts"], -1, len(stack), record["args"]))
                lives[record["id"]].append(stack[-1])
            elif record["ph"] == "e":
                ended = stack.pop()
                assert ended.name == record["name"], f"{record} ends {ended}"
                ended.end, ended.args = record["ts"], ended.args | record["args"]
        assert not any(open_.values()), open_
        return lives

    def _arrows(self) -> list[tuple[dict, Slice, Slice]]:
        """Check that each arrow starts and ends once, forward in time, inside open slices."""
        starts, ends = (
            {(record["cat"], record["name"], record["id"]): record for record in self.of(ph)}
            for ph in "sf"
        )
        assert starts.keys() == ends.keys()
        assert len(starts) == len(self.of("s")) and len(ends) == len(self.of("f"))
        arrows = []
        for key, start in starts.items():
            end = ends[key]
            assert start["ts"] <= end["ts"] and end["bp"] == "e", (start, end)
            arrows.append((start, self._slice_at(start), self._slice_at(end)))
        return arrows

    def _slice_at(self, record: dict) -> Slice:
        around = [s for s in self.slices[record["tid"]] if s.start <= record["ts"] < s.end]
        assert around, f"no slice holds {record}"
        return around[-1]
