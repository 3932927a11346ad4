"""Recordings: a header line, then one event a line (JSON Lines), and a reader that can seek.

A log is written to be read by strangers and after accidents: it can be searched with grep, a reader
skips kinds and fields that it does not know, and a torn last line (power cut, Ctrl-C, full disk)
simply ends it. The writer flushes at the end of every step, so a recording is whole up to the last
finished step whatever happens next.

Seeking: while a recording is opened it is folded once, and every `KEYFRAME_INTERVAL` events the fold
packs itself into a keyframe. To show step k, the reader restores the last keyframe before it and
applies at most that many events. The easy thing to get wrong is to keep a table of decoded events:
the file itself, mapped into memory, with the offset of each line, is the table.
"""

import mmap
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path

import msgspec

from minivllm.errors import EventLogError
from minivllm.events.fold import Fold
from minivllm.events.keyframe import pack, restore
from minivllm.events.types import EVENT_KINDS, SCHEMA_NAME, SCHEMA_VERSION, AnyEvent, Event, Gap, LogHeader, StepEnd

KEYFRAME_INTERVAL = 1000
"""Events between two keyframes: at most a millisecond or two of folding per seek. Half of it would double the memory."""

BUFFER_BYTES = 1 << 16

_encoder = msgspec.json.Encoder()
_event_decoder = msgspec.json.Decoder(AnyEvent)
_header_decoder = msgspec.json.Decoder(LogHeader)


class LogWriter:
    """Writes a recording; give `write` to `LLMEngine.subscribe`. Also a context manager.

    A full disk must not stop the engine: what cannot be written is counted, the file is cut back to its
    last whole line, and once there is room again a `Gap` says how many events are missing.
    """

    def __init__(self, path: str | Path, header: LogHeader) -> None:
        try:
            # Unbuffered: our own buffer holds whole lines, so a failed write can be taken back whole.
            self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed by close()
            self._size = self._file.write(_encoder.encode(header) + b"\n")
        except OSError as error:
            raise EventLogError(f"{path} cannot be written: {error.strerror}.") from error
        self._buffer = bytearray()
        self._num_buffered = 0
        self._num_lost = 0
        self._last: Event | None = None

    def write(self, event: Event) -> None:
        """Append one event; it is on disk when its step has ended."""
        self._buffer += _encoder.encode(event)
        self._buffer += b"\n"
        self._num_buffered += 1
        self._last = event
        if type(event) is StepEnd or len(self._buffer) > BUFFER_BYTES:
            self._write_out()

    def _write_out(self) -> None:
        last, data = self._last, bytes(self._buffer)
        if self._num_lost and last is not None:
            # Everything up to and with this buffer becomes one gap: half of it would not fold.
            self._num_lost += self._num_buffered
            data = _encoder.encode(Gap(last.seq, last.step, last.t, self._num_lost)) + b"\n"
        try:
            written = self._file.write(data)
            if written < len(data):
                raise OSError("the disk is full")
            self._size += written
            self._num_lost = 0
        except OSError:
            self._num_lost = self._num_lost or self._num_buffered
            self._file.truncate(self._size)
            self._file.seek(self._size)
        self._buffer.clear()
        self._num_buffered = 0

    def close(self) -> None:
        if self._buffer:
            self._write_out()
        self._file.close()

    def __enter__(self) -> "LogWriter":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Envelope(msgspec.Struct):
    """What every line has, of whatever kind."""

    ev: str
    seq: int


_envelope_decoder = msgspec.json.Decoder(_Envelope)
_KNOWN_TAGS = frozenset(kind.__struct_config__.tag for kind in EVENT_KINDS)


def decode_line(line: bytes) -> tuple[int, Event | None]:
    """The `seq` in one line, and its event: None for a kind that this version does not know.

    Raises `msgspec.DecodeError` for a line that is damaged.
    """
    try:
        event = _event_decoder.decode(line)
    except msgspec.ValidationError:
        envelope = _envelope_decoder.decode(line)
        if envelope.ev in _KNOWN_TAGS:
            raise  # one of our kinds, but not as we write it
        return envelope.seq, None  # written by a newer engine
    return event.seq, event


class Recording:
    """A log opened for reading at any step.

    `len(recording)` events over steps `first_step` to `last_step`; `fold_at_step` and `fold_at_event`
    give the state at any moment, and `events` a slice of the events themselves.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._data = _map_file(self.path)
        first_line_end = self._data.find(b"\n")
        if first_line_end < 0:
            raise EventLogError(f"{self.path} has no header line: it is empty or was cut off before it began.")
        self.header = read_header(self.path, self._data[:first_line_end])
        # Per known event: where its line begins, and its step (sorted, since steps only go up).
        self._offsets = array("Q")
        self._steps = array("Q")
        self._keyframes: list[bytes] = []
        self._index(first_line_end + 1)

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def first_step(self) -> int:
        return self._steps[0] if self._steps else 0

    @property
    def last_step(self) -> int:
        return self._steps[-1] if self._steps else 0

    def _index(self, start: int) -> None:
        """Fold the whole log once, noting where each event begins and packing keyframes on the way."""
        fold = Fold(self.header)
        line_number, expected_seq = 1, self.header.first_seq
        while (end := self._data.find(b"\n", start)) >= 0:
            line_number += 1
            try:
                seq, event = decode_line(self._data[start:end])
            except msgspec.DecodeError as error:
                if self._data.find(b"\n", end + 1) < 0:
                    break  # the last line, torn while it was written: the log ends before it
                raise EventLogError(f"{self.path} is damaged at line {line_number}: {error}.") from error
            first_seq = seq + 1 - event.lost if isinstance(event, Gap) else seq
            if first_seq != expected_seq:
                raise EventLogError(
                    f"{self.path} is damaged at line {line_number}: event {expected_seq} should stand there, not {seq}."
                )
            expected_seq = seq + 1
            if event is not None:
                if len(self._offsets) % KEYFRAME_INTERVAL == 0:
                    self._keyframes.append(pack(fold))
                fold.apply(event)
                self._offsets.append(start)
                self._steps.append(event.step)
            start = end + 1

    def events(self, start: int, stop: int) -> Iterator[Event]:
        """Events number `start` to `stop - 1` of this log."""
        for index in range(start, min(stop, len(self))):
            offset = self._offsets[index]
            yield _event_decoder.decode(self._data[offset : self._data.find(b"\n", offset)])

    def fold_at_event(self, count: int) -> Fold:
        """The state after the first `count` events."""
        count = max(0, min(count, len(self)))
        keyframe = min(count // KEYFRAME_INTERVAL, len(self._keyframes) - 1)
        if keyframe < 0:
            return Fold(self.header)
        fold = restore(self.header, self._keyframes[keyframe])
        for event in self.events(keyframe * KEYFRAME_INTERVAL, count):
            fold.apply(event)
        return fold

    def fold_at_step(self, step: int) -> Fold:
        """The state after the last event of `step` (of the last step before it, if the log skips it)."""
        return self.fold_at_event(bisect_right(self._steps, step))

    def step_events(self, step: int) -> list[Event]:
        """All events of one step."""
        return list(self.events(bisect_left(self._steps, step), bisect_right(self._steps, step)))


def _map_file(path: Path) -> mmap.mmap | bytes:
    try:
        with open(path, "rb") as file:
            # An empty file cannot be mapped.
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
    except OSError as error:
        raise EventLogError(f"{path} cannot be read: {error.strerror}.") from error


def read_header(path: Path, line: bytes) -> LogHeader:
    """The first line of a log. Raises `EventLogError` for one that is not ours, or newer than we know."""
    try:
        header = _header_decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise EventLogError(f"{path} is not a minivllm recording: its first line is no header.") from error
    if header.schema != SCHEMA_NAME:
        raise EventLogError(f"{path} is a {header.schema!r} log, not {SCHEMA_NAME!r}.")
    if header.version > SCHEMA_VERSION:
        raise EventLogError(
            f"{path} has version {header.version} of the recording format and this minivllm reads up to "
            f"{SCHEMA_VERSION}: upgrade minivllm to open it."
        )
    return header
