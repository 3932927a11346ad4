"""A strict reader of Chrome traces: fails on anything that a viewer would draw wrong or drop.

It is stricter than the format: times are whole microseconds, a slice lasts at least 1 us, records
are sorted by time (except arrow starts), and every track has a name.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

REQUIRED = {"ph", "name", "pid", "tid", "ts"}
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
        assert (
            set(whole) == {"displayTimeUnit", "traceEvents", "otherData"}
            and whole["displayTimeUnit"] == "ms"
        )
        self.about: dict = whole["otherData"]
        self.records: list[dict] = whole["traceEvents"]
        for record in self.records:
            assert record.keys() >= REQUIRED and record["ph"] in PHASES, record
            assert type(record["ts"]) is int and record["ts"] >= 0, record
            assert type(record["pid"]) is int and type(record["tid"]) is int, record
            assert isinstance(record["name"], str) and record["name"], record
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
            assert record["args"] and all(
                type(value) is int for value in record["args"].values()
            ), record

    def of(self, ph: str) -> list[dict]:
        return [record for record in self._sorted if record["ph"] == ph]

    def track(self, name: str) -> list[Slice]:
        (tid,) = (tid for tid, named in self.tracks.items() if named == name)
        return self.slices.get(tid, [])

    def counter(self, name: str, ts: int) -> dict[str, int]:
        """Value of a counter just after `ts`."""
        return [record for record in self.of("C") if record["name"] == name and record["ts"] <= ts][
            -1
        ]["args"]

    def _names(self) -> dict[int, str]:
        names = [record for record in self.of("M") if record["name"] == "thread_name"]
        ranks = [record for record in self.of("M") if record["name"] == "thread_sort_index"]
        assert [r["args"]["sort_index"] for r in ranks] == sorted(
            r["args"]["sort_index"] for r in ranks
        )
        assert sum(record["name"] == "process_name" for record in self.of("M")) == 1
        tracks = {record["tid"]: record["args"]["name"] for record in names}
        assert len(tracks) == len(names) == len(ranks) == len(set(tracks.values()))
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
            new = Slice(record["name"], start, end, len(stack), record["args"])
            stack.append(new)
            tracks[record["tid"]].append(new)
        return tracks

    def _lives(self) -> dict[int, list[Slice]]:
        """Asynchronous slices by id. Each ends by name, the innermost first."""
        lives: dict[int, list[Slice]] = defaultdict(list)
        open_: dict[int, list[Slice]] = defaultdict(list)
        for record in self._sorted:
            if record["ph"] == "b":
                stack = open_[record["id"]]
                new = Slice(record["name"], record["ts"], -1, len(stack), record["args"])
                stack.append(new)
                lives[record["id"]].append(new)
            elif record["ph"] == "e":
                ended = open_[record["id"]].pop()
                assert ended.name == record["name"], f"{record} ends {ended}"
                ended.end = record["ts"]
                ended.args = ended.args | record["args"]
        assert not any(open_.values()), open_
        return lives

    def _arrows(self) -> list[tuple[dict, Slice, Slice]]:
        """Check that each arrow starts and ends once, forward in time, inside open slices."""
        starts = {(record["cat"], record["name"], record["id"]): record for record in self.of("s")}
        ends = {(record["cat"], record["name"], record["id"]): record for record in self.of("f")}
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
