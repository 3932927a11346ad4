"""`Recording`: a log opened for reading at any moment, even while it grows.

`index_more` reads new lines, folds them into `head`, and indexes them (`event_index.py`,
`keyframes.py`). To show the moment after event k, it restores the last keyframe before k and
applies the events from there. Events are read from the file again, so memory does not grow with
them.

The codec decides what is folded: `FOLD` gives the engine's state, a dashboard uses its own model.
Only one thread may use a recording.

A last line without a newline, or one that cannot be decoded, may still be being written. It is read
again later and is not damage yet.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Generic

import msgspec

from minivllm.errors import EventLogError
from minivllm.events.recording.event_index import NOTABLE_KINDS, EventIndex
from minivllm.events.recording.fold_codec import FOLD
from minivllm.events.recording.keyframes import Keyframes, V, ViewCodec
from minivllm.events.recording.lines import (
    decode_again,
    decode_header,
    decode_if_all_known,
    decode_line,
    decode_state,
)
from minivllm.events.recording.whole_file import whole_file
from minivllm.events.types import Event, Gap, LogHeader

BATCH_BYTES = 1 << 16
"""Bytes indexed at once: about five hundred events, a millisecond or less."""


class _DamageError(Exception):
    """Describes a damaged line; used only within this module."""


class Recording(Generic[V]):
    """Events number 0 to `len(recording) - 1`, without those of unknown kinds."""

    def __init__(
        self,
        path_or_file: str | Path | BinaryIO,
        codec: ViewCodec[V] = FOLD,
        *,
        index: bool = True,
        name: str | None = None,
        keyframes: Keyframes | None = None,
    ) -> None:
        """Open a recording and read its header.

        index: index the whole file now, and raise on damage; else call `index_more` step by step
        name:  how messages call the recording; by default its path

        `close` does not close a file that was passed in. Raises `EventLogError`.
        """
        self._owns_file = isinstance(path_or_file, str | Path)
        self._file = _open(path_or_file) if isinstance(path_or_file, str | Path) else path_or_file
        self.name = name or str(path_or_file)
        self.size = 0
        """Size of the file in bytes, as `index_more` last saw it."""
        self.indexed_bytes = 0
        self.damage: str | None = None
        """Description of a damaged line, if there is one. Everything before it stays readable."""
        try:
            self.header = self._read_header()
        except EventLogError:
            self.close()
            raise
        self.num_unknown = 0
        """Events of kinds that this version does not know: skipped, but their `seq` counts."""
        self._codec = codec
        self._count = 0
        self._expected_seq = self.header.first_seq
        self._index = EventIndex()
        self._keyframes = Keyframes() if keyframes is None else keyframes
        self._has_begun = False
        self._has_state = False
        self.head: V = codec.new(self.header, None)
        """The view after the last indexed event. It is live: read it, do not change it."""
        if index:
            self.index_more(float("inf"))
            if self.damage is not None:
                raise EventLogError(self.damage)

    def __len__(self) -> int:
        return self._count

    def close(self) -> None:
        if self._owns_file:
            self._file.close()

    # ---- growing ----

    def index_more(self, seconds: float) -> int:
        """Index new lines for about `seconds`. Return the number of new events.

        0 means that everything is read, or that a line is damaged.
        """
        count, deadline = self._count, time.monotonic() + seconds
        self._look_at_size()
        while self.damage is None and (lines := self._read_lines()):
            if not self._has_begun:
                lines = self._begin(lines)
            if not self._index_lines(lines):
                break
            # Stop only after a new event: 0 must mean that everything is read, whatever its kinds.
            if self._count > count and time.monotonic() >= deadline:
                break
        return self._count - count

    def _look_at_size(self) -> None:
        self.size = os.fstat(self._file.fileno()).st_size
        if self.size < self.indexed_bytes and self.damage is None:
            self.damage = f"{self.name} became shorter while it was read: open it again."

    def _read_lines(self) -> bytes:
        """Read whole lines that are not indexed yet, at least one if there is one."""
        length = BATCH_BYTES
        while self.indexed_bytes < self.size:
            stop = min(self.indexed_bytes + length, self.size)
            data = self._read(self.indexed_bytes, stop)
            if end := data.rfind(b"\n") + 1:
                return data[:end]
            if stop == self.size:
                break  # a line that is incomplete, or torn
            length *= 4
        return b""

    def _read_header(self) -> LogHeader:
        self._look_at_size()
        line, newline, _ = self._read_lines().partition(b"\n")
        if not newline:
            raise EventLogError(f"{self.name} has no header line: it is empty or incomplete.")
        self.indexed_bytes = len(line) + 1
        return decode_header(self.name, line)

    def _begin(self, lines: bytes) -> bytes:
        """Make the first keyframe and return the lines that follow the state, if there is one."""
        line, _, rest = lines.partition(b"\n")
        try:
            state = decode_state(line)
        except msgspec.DecodeError:
            state = None  # damaged; it will be read again as an event
        if state is not None:
            self.head = self._codec.new(self.header, state)
            self.indexed_bytes += len(line) + 1
            self._has_state = True
            lines = rest
        self._has_begun = True
        self._keyframes.add(0, self.indexed_bytes, self._codec.pack(self.head))
        return lines

    def _index_lines(self, lines: bytes) -> bool:
        """Index whole lines. Return False if one must be read again later, or is damaged."""
        self._index.add_mark(self._count, self.indexed_bytes)
        if self._keyframes.is_due(self.indexed_bytes):
            self._keyframes.add(self._count, self.indexed_bytes, self._codec.pack(self.head))
        try:
            events = decode_if_all_known(lines)
            if events is not None and self._are_next(events):
                self.indexed_bytes += len(lines)
                self._take(events)
                return True
            return all(self._index_line(line) for line in lines.split(b"\n")[:-1])
        except _DamageError as damage:
            number = 2 + self._has_state + self._count + self.num_unknown
            self.damage = f"{self.name} is damaged at line {number}: {damage}."
            # The view may have applied half of an event.
            self.head = self.view_at_event(self._count)
            return False

    def _are_next(self, events: list[Event]) -> bool:
        """Whether the events' numbers continue without a gap."""
        expected = range(self._expected_seq, self._expected_seq + len(events))
        return [event.seq for event in events] == list(expected) and not any(
            type(event) is Gap for event in events
        )

    def _index_line(self, line: bytes) -> bool:
        """Index one line, given without its newline. Return False if it may be torn."""
        length = len(line) + 1
        try:
            seq, event = decode_line(line)
        except msgspec.DecodeError as error:
            if self.indexed_bytes + length == self.size:
                return False
            raise _DamageError(str(error)) from error
        first_seq = seq + 1 - event.lost if isinstance(event, Gap) else seq
        if first_seq != self._expected_seq:
            raise _DamageError(f"expected event {self._expected_seq}, found event {seq}")
        self.indexed_bytes += length
        if event is None:
            self.num_unknown += 1
            self._expected_seq = seq + 1
        else:
            self._take([event])
        return True

    def _take(self, events: list[Event]) -> None:
        """Fold events that have the right numbers, and index them."""
        index, view = self._index, self.head
        step = index.last_step if self._count else None
        for number, event in enumerate(events, self._count):
            if event.step != step:
                if step is not None and event.step < step:
                    raise _DamageError(
                        f"an event of step {event.step} follows an event of step {step}"
                    )
                step = event.step
                index.begin_step(step, number)
            if type(event) in NOTABLE_KINDS:
                index.add_notable(event, number)
            try:
                view.apply(event)
            except (LookupError, ValueError) as error:
                why = "an earlier event is missing"
                if self.header.first_seq > 0 and not self._has_state:
                    why = "the recording begins in the middle of a run and has no state"
                raise _DamageError(
                    f"event {event.seq}, {event.__struct_config__.tag}, cannot be applied: {why}"
                ) from error
            self._count = number + 1
            self._expected_seq = event.seq + 1

    # ---- reading at any moment ----

    def view_at_event(self, count: int) -> V:
        """Make a new view after the first `count` events."""
        count = max(0, min(count, self._count))
        if not self._has_begun:
            return self._codec.new(self.header, None)
        keyframe = self._keyframes.before(count)
        view = self._codec.restore(self.header, keyframe.pieces)
        for batch in self._batches(keyframe.count, count):
            for event in batch:
                view.apply(event)
        return view

    def view_at_step(self, step: int) -> V:
        """Make a new view after the last event of `step`, or of the last step before it."""
        return self.view_at_event(self.step_end(step))

    def events(self, start: int, stop: int) -> Iterator[Event]:
        """Read events number `start` to `stop - 1`."""
        for batch in self._batches(max(0, start), min(stop, self._count)):
            yield from batch

    def _batches(self, start: int, stop: int) -> Iterator[list[Event]]:
        # Read a few hundred at a time: they stay in the processor's cache until they are used.
        while start < stop:
            begin, end = self._index.last_mark(start), self._index.first_mark(start + 1)
            lines = self._read(begin.offset, end.offset if end else self.indexed_bytes)
            known = (end.count if end else self._count) - begin.count
            events = decode_again(self.name, lines, known)[start - begin.count : stop - begin.count]
            yield events
            start += len(events)

    def step_of(self, index: int) -> int:
        """The step of event `index`; after the last event, the last step; 0 without events."""
        return self._index.step_of(min(index, self._count - 1)) if self._count else 0

    def step_begin(self, step: int) -> int:
        """Return the number of the first event of `step`, or of the next existing step."""
        begin = self._index.step_begin(step)
        return self._count if begin is None else begin

    def step_end(self, step: int) -> int:
        """Return the number after the last event of `step`, or of the last step before it."""
        return self.step_begin(step + 1)

    @property
    def first_step(self) -> int:
        return self._index.first_step

    @property
    def last_step(self) -> int:
        return self._index.last_step

    def next_notable(self, index: int) -> int | None:
        """Return the number of the first notable event at or after `index`."""
        return self._index.next_notable(index)

    def previous_notable(self, index: int) -> int | None:
        """Return the number of the last notable event before `index`."""
        return self._index.previous_notable(index)

    def arrival(self, request_id: str) -> int | None:
        """Return the number of the event of the request's first arrival; None if not indexed."""
        return self._index.arrival(request_id)

    def save(self, path: str | Path) -> None:
        """Copy the indexed part into a recording of its own."""
        with whole_file(path) as file:
            for start in range(0, self.indexed_bytes, BATCH_BYTES):
                file.write(self._read(start, min(start + BATCH_BYTES, self.indexed_bytes)))

    def _read(self, start: int, stop: int) -> bytes:
        try:
            self._file.seek(start)
            data = self._file.read(stop - start)
        except OSError as error:
            raise EventLogError(f"{self.name} cannot be read: {error.strerror}.") from error
        if len(data) < stop - start:
            raise EventLogError(f"{self.name} became shorter while it was read: open it again.")
        return data


def _open(path: str | Path) -> BinaryIO:
    try:
        # Unbuffered: a buffer would keep the old end of a line that is still being written.
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise EventLogError(f"{path} cannot be read: {error.strerror}.") from error
