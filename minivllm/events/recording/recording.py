"""`Recording`: a log opened for reading at any moment, even while it grows.

`index_more` reads new lines, folds their events into `head`, and indexes them (`event_index.py`,
`keyframes.py`). To show the moment after event k, a recording restores the last keyframe before k
and applies the events from there to k, which it reads from the file again.

The codec decides what is folded: `FOLD` gives the engine's state, a dashboard uses its own model.
Only one thread may use a recording.

A last line that has no newline or cannot be decoded may still be incomplete. It is read again later
and does not count as damage yet.
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
"""Bytes that are indexed at once: about five hundred events, in a millisecond or less."""


class _DamageError(Exception):
    """Describes a damaged line; used only within this module."""


class Recording(Generic[V]):
    """The events of a log, number 0 to `len(recording) - 1`, without events of unknown kinds."""

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

        index: index the whole file now and raise if a line is damaged. If False, call `index_more`
        name:  name of the recording in messages; by default its path

        `close` does not close a file that was passed in. Raises `EventLogError` if the header, or
        with `index` any line, cannot be read.
        """
        self._owns_file = isinstance(path_or_file, str | Path)
        self._file = _open(path_or_file) if isinstance(path_or_file, str | Path) else path_or_file
        self.name = name or str(path_or_file)
        self.size = 0
        """Size of the file in bytes at the last `index_more`."""
        self.indexed_bytes = 0
        self.damage: str | None = None
        """The damaged line, if there is one. All earlier lines stay readable."""
        try:
            self.header = self._read_header()
        except EventLogError:
            self.close()
            raise
        self.num_unknown = 0
        """How many events of unknown kinds were skipped. Their `seq` is still checked."""
        self._num_compact = 0
        """How many more events than lines there are so far (`compact.py`)."""
        self._codec = codec
        self._count = 0
        self._decoded: tuple[object, list[Event]] = None, []
        """The part of the file that was read last, and its events."""
        self._expected_seq = self.header.first_seq
        self._index = EventIndex()
        self._keyframes = Keyframes() if keyframes is None else keyframes
        self._has_begun = False
        self._has_state = False
        self.head: V = codec.new(self.header, None)
        """The view after the last indexed event. It changes with `index_more`; do not modify it."""
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

        Returns 0 if all lines have been read, or if the next line is damaged.
        """
        count, deadline = self._count, time.monotonic() + seconds
        self._look_at_size()
        while self.damage is None and (lines := self._read_lines()):
            if not self._has_begun:
                lines = self._begin(lines)
            if not self._index_lines(lines):
                break
            # A result of 0 must mean that all lines have been read, even if the kinds are unknown.
            if self._count > count and time.monotonic() >= deadline:
                break
        return self._count - count

    def _look_at_size(self) -> None:
        self.size = os.fstat(self._file.fileno()).st_size
        if self.size < self.indexed_bytes and self.damage is None:
            self.damage = f"{self.name} became shorter while it was read: open it again."

    def _read_lines(self) -> bytes:
        """Read some whole lines that are not indexed yet, or nothing if there are none."""
        length = BATCH_BYTES
        while self.indexed_bytes < self.size:
            stop = min(self.indexed_bytes + length, self.size)
            data = self._read(self.indexed_bytes, stop)
            if end := data.rfind(b"\n") + 1:
                return data[:end]
            if stop == self.size:
                break  # an incomplete line
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
        """Make the first keyframe. Return `lines` without the line of a state."""
        line, _, rest = lines.partition(b"\n")
        try:
            if (state := decode_state(line)) is not None:
                self.head = self._codec.new(self.header, state)
        except (LookupError, OverflowError, msgspec.DecodeError):
            state = None  # a damaged line; it will be read again as an event
        if state is not None:
            self.indexed_bytes += len(line) + 1
            self._has_state = True
            lines = rest
        self._has_begun = True
        self._keyframes.add(0, self.indexed_bytes, self._codec.pack(self.head))
        return lines

    def _index_lines(self, lines: bytes) -> bool:
        """Index whole lines. Return False if a line is damaged or must be read again later."""
        self._index.add_mark(self._count, self.indexed_bytes)
        if self._keyframes.is_due(self.indexed_bytes):
            self._keyframes.add(self._count, self.indexed_bytes, self._codec.pack(self.head))
        try:
            events = decode_if_all_known(lines)
            if events is not None and self._are_next(events):
                self.indexed_bytes += len(lines)
                self._take(events)
                self._num_compact += len(events) - lines.count(b"\n")
                return True
            return all(self._index_line(line) for line in lines.split(b"\n")[:-1])
        except _DamageError as damage:
            number = 2 + self._has_state + self._count + self.num_unknown - self._num_compact
            self.damage = f"{self.name} is damaged at line {number}: {damage}."
            # The view may have applied only a part of an event, so make it again.
            self.head = self.view_at_event(self._count)
            return False

    def _are_next(self, events: list[Event]) -> bool:
        """Whether the events' numbers continue without a gap."""
        expected = range(self._expected_seq, self._expected_seq + len(events))
        return [event.seq for event in events] == list(expected) and not any(
            type(event) is Gap for event in events
        )

    def _index_line(self, line: bytes) -> bool:
        """Index one line, given without its newline. Return False if it may be incomplete."""
        length = len(line) + 1
        try:
            seq, events = decode_line(line)
        except msgspec.DecodeError as error:
            if self.indexed_bytes + length == self.size:
                return False
            raise _DamageError(str(error)) from error
        first_seq = seq + 1 - events[0].lost if events and type(events[0]) is Gap else seq
        if first_seq != self._expected_seq:
            raise _DamageError(f"expected event {self._expected_seq}, found event {seq}")
        self.indexed_bytes += length
        if events:
            self._take(events)
            self._num_compact += len(events) - 1
        else:
            self.num_unknown += 1
            self._expected_seq = seq + 1
        return True

    def _take(self, events: list[Event]) -> None:
        """Fold and index events, whose numbers have been checked."""
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
            except (LookupError, OverflowError, ValueError) as error:
                why = "an earlier event is missing"
                if isinstance(error, OverflowError):
                    why = "one of its numbers is too large or negative"
                elif self.header.first_seq > 0 and not self._has_state:
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
        view = self._codec.restore(self.header, keyframe.pieces, self.head)
        for batch in self._batches(keyframe.count, count):
            for event in batch:
                view.apply(event)
        return view

    def view_at_step(self, step: int) -> V:
        """Make a new view after the last event of `step`, or of the last recorded step before."""
        return self.view_at_event(self.step_end(step))

    def events(self, start: int, stop: int) -> Iterator[Event]:
        """Read events number `start` to `stop - 1`."""
        for batch in self._batches(max(0, start), min(stop, self._count)):
            yield from batch

    def _batches(self, start: int, stop: int) -> Iterator[list[Event]]:
        # A few hundred events at a time stay in the processor's cache until their use.
        while start < stop:
            begin, end = self._index.last_mark(start), self._index.first_mark(start + 1)
            part = begin.offset, end.offset if end else self.indexed_bytes
            if self._decoded[0] != part:  # steps that are played one by one are in the same part
                known = (end.count if end else self._count) - begin.count
                self._decoded = part, decode_again(self.name, self._read(*part), known)
            events = self._decoded[1][start - begin.count : stop - begin.count]
            yield events
            start += len(events)

    def step_of(self, index: int) -> int:
        """Return the step of event `index`, or the last step if `index` is too large.

        Returns 0 for a recording without events.
        """
        return self._index.step_of(min(index, self._count - 1)) if self._count else 0

    def step_begin(self, step: int) -> int:
        """Return the number of the first event of `step`, or of the next recorded step."""
        begin = self._index.step_begin(step)
        return self._count if begin is None else begin

    def step_end(self, step: int) -> int:
        """Return the number that follows the last event of `step` or of an earlier step."""
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

    def has_notable(self, kind: type[Event], start: int, stop: int) -> bool:
        """Whether a notable event of this kind has a number from `start` to `stop - 1`."""
        return self._index.has_notable(kind, start, stop)

    def arrival(self, request_id: str) -> int | None:
        """Return the number of the request's first arrival event; None if it is not indexed."""
        return self._index.arrival(request_id)

    def save(self, path: str | Path) -> None:
        """Copy the indexed part into a new recording at `path`."""
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
        # Unbuffered: a buffer would keep the old content of a growing last line.
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise EventLogError(f"{path} cannot be read: {error.strerror}.") from error
