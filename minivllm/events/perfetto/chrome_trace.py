"""`ChromeTrace`: writes Chrome's trace format, which ui.perfetto.dev and chrome://tracing open.

A trace is one JSON object with a list of records:

    X     slice on a thread's track
    b, e  begin and end of an asynchronous slice; slices with the same id nest
    s, f  start and end of an arrow between slices
    i     instant
    C     counter
    M     name

Times are whole microseconds: readers would truncate fractions, so neighbouring slices could
overlap.

Records of the same time must keep their order: an outer slice before an inner slice, a slice before
its arrow. So the records of a step are collected, and their sort by time is stable. Only the start
of an arrow may be earlier than records that are already written; readers sort the whole file.

Source: the Trace Event Format (Google), and Perfetto's reader,
`src/trace_processor/importers/json`.
"""

from operator import itemgetter
from typing import BinaryIO, Literal

import msgspec

PID = 1
"""Id of the only process, and the thread id of records without a track."""


class ChromeTrace:
    """Writes a trace into `file`. Without `close`, the file is not valid JSON."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pending: list[dict[str, object]] = []
        self._next_flow = 1
        self._separator = b"\n"
        self._encode = msgspec.json.Encoder().encode
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[')

    def process(self, name: str) -> None:
        self._name("process_name", PID, {"name": name})

    def thread(self, tid: int, name: str) -> None:
        """Name a track. Tracks are shown in the order of their `tid`."""
        self._name("thread_name", tid, {"name": name})
        self._name("thread_sort_index", tid, {"sort_index": tid})

    def _name(self, what: str, tid: int, args: dict[str, object]) -> None:
        self._pending.append(
            {"ph": "M", "name": what, "pid": PID, "tid": tid, "ts": 0, "args": args}
        )

    def slice(
        self, tid: int, cat: str, name: str, start: int, end: int, args: dict[str, object]
    ) -> None:
        self._pending.append(
            {
                "ph": "X",
                "name": name,
                "cat": cat,
                "pid": PID,
                "tid": tid,
                "ts": start,
                "dur": end - start,
                "args": args,
            }
        )

    def begin(self, async_id: int, cat: str, name: str, ts: int, args: dict[str, object]) -> None:
        """Begin an asynchronous slice inside the open slices of the same id."""
        self._pending.append(
            {
                "ph": "b",
                "name": name,
                "cat": cat,
                "pid": PID,
                "tid": PID,
                "id": async_id,
                "ts": ts,
                "args": args,
            }
        )

    def end(self, async_id: int, cat: str, name: str, ts: int, args: dict[str, object]) -> None:
        self._pending.append(
            {
                "ph": "e",
                "name": name,
                "cat": cat,
                "pid": PID,
                "tid": PID,
                "id": async_id,
                "ts": ts,
                "args": args,
            }
        )

    def instant(
        self,
        tid: int,
        cat: str,
        name: str,
        ts: int,
        args: dict[str, object],
        scope: Literal["t", "g"] = "t",
    ) -> None:
        """Mark a moment on one track, or in the whole trace if `scope` is `g`."""
        self._pending.append(
            {
                "ph": "i",
                "name": name,
                "cat": cat,
                "pid": PID,
                "tid": tid,
                "ts": ts,
                "s": scope,
                "args": args,
            }
        )

    def arrow(
        self, cat: str, source: tuple[int, int], target: tuple[int, int], args: dict[str, object]
    ) -> None:
        """Draw an arrow between the slices at two (track, time) points. Add the slices first."""
        for ph, (tid, ts) in (("s", source), ("f", target)):
            record: dict[str, object] = {
                "ph": ph,
                "name": cat,
                "cat": cat,
                "pid": PID,
                "tid": tid,
                "id": self._next_flow,
                "ts": ts,
                "args": args,
            }
            if ph == "f":
                record["bp"] = "e"  # end at the enclosing slice, not at the next slice
            self._pending.append(record)
        self._next_flow += 1

    def counter(self, name: str, ts: int, values: dict[str, int]) -> None:
        self._pending.append(
            {"ph": "C", "name": name, "pid": PID, "tid": PID, "ts": ts, "args": values}
        )

    def flush(self) -> None:
        """Write the collected records in order of time."""
        self._pending.sort(key=itemgetter("ts"))
        for record in self._pending:
            self._file.write(self._separator + self._encode(record))
            self._separator = b",\n"
        self._pending.clear()

    def close(self, about: dict[str, object]) -> None:
        """End the trace. `about`: facts for readers of the trace."""
        self.flush()
        self._file.write(b'\n],"otherData":' + self._encode(about) + b"}\n")
