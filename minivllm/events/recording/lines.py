"""Encode and decode the lines of a recording: a header, an optional state, then events.

An event of an unknown kind was written by a newer engine and is skipped. An event of a known kind
with an invalid field is damage.
"""

import msgspec

from minivllm.errors import EventLogError
from minivllm.events.recording.compact import CompactLine, expand
from minivllm.events.state import EngineState
from minivllm.events.types import (
    EVENT_KINDS,
    SCHEMA_NAME,
    SCHEMA_VERSION,
    AnyEvent,
    Event,
    LogHeader,
)


class Envelope(msgspec.Struct):
    """The fields that every event's line has."""

    ev: str
    seq: int
    step: int
    t: float


class _StateLine(msgspec.Struct, tag_field="ev", tag="log.state"):
    """Second line of a recording that starts in the middle of a run: the state at the start."""

    state: EngineState


class _Kind(msgspec.Struct):
    ev: str


_encoder = msgspec.json.Encoder()
_event_decoder = msgspec.json.Decoder(AnyEvent | CompactLine)
_header_decoder = msgspec.json.Decoder(LogHeader)
_state_decoder = msgspec.json.Decoder(_StateLine)
_envelope_decoder = msgspec.json.Decoder(Envelope)
_kind_decoder = msgspec.json.Decoder(_Kind)
_KNOWN_TAGS = frozenset(
    kind.__struct_config__.tag for kind in (*EVENT_KINDS, *CompactLine.__args__)
)


_MOST = {
    "num_blocks": 1 << 22,  # a reader makes an object for each
    "block_size": 1 << 31,
    "max_num_seqs": 1 << 31,
    "max_num_batched_tokens": 1 << 31,
    "max_model_len": 1 << 31,
}
"""Upper limits of header fields, which no real engine reaches; the lower limit is 1.

Without limits, a reader could divide by 0 or make a list that is too long.
"""


def encode_event(event: Event | CompactLine) -> bytes:
    return _encoder.encode(event) + b"\n"


def encode_header(header: LogHeader) -> bytes:
    return _encoder.encode(header) + b"\n"


def encode_state(state: EngineState) -> bytes:
    return _encoder.encode(_StateLine(state)) + b"\n"


def state_line(state_json: bytes) -> bytes:
    """Make a line from a state in JSON, which the line's reader checks."""
    return b'{"ev":"log.state","state":' + state_json + b"}\n"


def decode_header(name: str, line: bytes) -> LogHeader:
    """Decode the header of the recording `name`. Raise `EventLogError` if it is invalid."""
    try:
        header = _header_decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise EventLogError(
            f"{name} is not a minivllm recording: its first line is not a header."
        ) from error
    if header.schema != SCHEMA_NAME:
        raise EventLogError(f"{name} is a {header.schema!r} file, not a minivllm recording.")
    if header.version > SCHEMA_VERSION:
        raise EventLogError(
            f"{name} has version {header.version} of the recording format, but this minivllm reads"
            f" versions up to {SCHEMA_VERSION}: upgrade minivllm to open it."
        )
    for field, most in _MOST.items():
        value = getattr(header, field)
        if not 1 <= value <= most:
            raise EventLogError(
                f"{name} cannot be shown: {field} in its header must be from 1 to {most:,}; got"
                f" {value:,}."
            )
    return header


def decode_state(line: bytes) -> EngineState | None:
    """Decode the state in a line. Return None if the line has no state.

    Raises `msgspec.DecodeError` for a damaged line.
    """
    if _kind_decoder.decode(line).ev != _StateLine.__struct_config__.tag:
        return None
    return _state_decoder.decode(line).state


def decode_envelope(line: bytes) -> Envelope:
    """Decode an event's envelope. Raise `msgspec.DecodeError` if the line is not an event."""
    return _envelope_decoder.decode(line)


def decode_line(line: bytes) -> tuple[int, list[Event]]:
    """Decode a line into the `seq` of its first event and its events, usually one.

    A line of an unknown kind has no events.

    Raises `msgspec.DecodeError` for a damaged line.
    """
    try:
        events = expand([_event_decoder.decode(line)])
    except msgspec.ValidationError:
        envelope = _envelope_decoder.decode(line)
        if envelope.ev in _KNOWN_TAGS:
            raise  # a known kind with invalid fields
        return envelope.seq, []  # written by a newer engine
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error
    return events[0].seq, events


def decode_again(name: str, lines: bytes, count: int) -> list[Event]:
    """Decode lines that had `count` known events. Raise `EventLogError` if the lines changed."""
    try:
        events = decode_if_all_known(lines)
        if events is None:
            events = [
                event for line in lines.split(b"\n") if line for event in decode_line(line)[1]
            ]
    except (msgspec.DecodeError, UnicodeDecodeError):
        events = []
    if len(events) < count:
        raise EventLogError(f"{name} was changed while it was read: open it again.")
    return events


def decode_if_all_known(lines: bytes) -> list[Event] | None:
    """Decode whole lines in a third of the time. Return None if a line is unknown or damaged."""
    try:
        return expand(_event_decoder.decode_lines(lines))
    except (msgspec.DecodeError, ValueError):
        return None
