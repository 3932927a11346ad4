"""The lines of a recording, written and read: a header, perhaps a state, then one event a line.

Knows the JSON of each kind of line and nothing of files or of order. The easy thing to get wrong is
to take everything that cannot be decoded for the same: a kind that this version does not know was
written by a newer engine and is passed over, one of our own kinds with a wrong field is damage.
"""

import msgspec

from minivllm.errors import EventLogError
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
    """What every event's line has, of whatever kind."""

    ev: str
    seq: int
    step: int
    t: float


class _StateLine(msgspec.Struct, tag_field="ev", tag="log.state"):
    """Second line of a recording that begins in the middle of a run: the engine as it was then."""

    state: EngineState


class _Kind(msgspec.Struct):
    ev: str


_encoder = msgspec.json.Encoder()
_event_decoder = msgspec.json.Decoder(AnyEvent)
_header_decoder = msgspec.json.Decoder(LogHeader)
_state_decoder = msgspec.json.Decoder(_StateLine)
_envelope_decoder = msgspec.json.Decoder(Envelope)
_kind_decoder = msgspec.json.Decoder(_Kind)
_KNOWN_TAGS = frozenset(kind.__struct_config__.tag for kind in EVENT_KINDS)


_MOST = {
    "num_blocks": 1 << 22,  # a reader has an object for each
    "block_size": 1 << 31,
    "max_num_seqs": 1 << 31,
    "max_num_batched_tokens": 1 << 31,
    "max_model_len": 1 << 31,
}
"""Sizes that no engine exceeds. A reader divides by them and makes lists of their length; none of
them can be 0.
"""


def encode_event(event: Event) -> bytes:
    return _encoder.encode(event) + b"\n"


def encode_header(header: LogHeader) -> bytes:
    return _encoder.encode(header) + b"\n"


def encode_state(state: EngineState) -> bytes:
    return _encoder.encode(_StateLine(state)) + b"\n"


def state_line(state_json: bytes) -> bytes:
    """The line of a state that came as JSON, not checked: whoever reads the line will."""
    return b'{"ev":"log.state","state":' + state_json + b"}\n"


def decode_header(name: str, line: bytes) -> LogHeader:
    """Raises `EventLogError`, about a recording called `name`, for anything that is no header of
    ours.
    """
    try:
        header = _header_decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise EventLogError(
            f"{name} is not a minivllm recording: its first line is no header."
        ) from error
    if header.schema != SCHEMA_NAME:
        raise EventLogError(f"{name} is a {header.schema!r} log, not {SCHEMA_NAME!r}.")
    if header.version > SCHEMA_VERSION:
        raise EventLogError(
            f"{name} has version {header.version} of the recording format and this minivllm reads"
            f" up to {SCHEMA_VERSION}: upgrade minivllm to open it."
        )
    for field, most in _MOST.items():
        value = getattr(header, field)
        if not 1 <= value <= most:
            raise EventLogError(
                f"{name} cannot be shown: its header says {field} {value:,}, where only 1 to"
                f" {most:,} can be."
            )
    return header


def decode_state(line: bytes) -> EngineState | None:
    """The state in a line that holds one; None for any other line. Raises `msgspec.DecodeError` for
    a damaged one.
    """
    if _kind_decoder.decode(line).ev != _StateLine.__struct_config__.tag:
        return None
    return _state_decoder.decode(line).state


def decode_envelope(line: bytes) -> Envelope:
    """Raises `msgspec.DecodeError` for a line that is no event's."""
    return _envelope_decoder.decode(line)


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


def decode_known(lines: bytes) -> list[Event]:
    """The events in whole lines that were read before; kinds that this version does not know are
    left out.
    """
    try:
        return _event_decoder.decode_lines(lines)
    except msgspec.ValidationError:
        decoded = (decode_line(line)[1] for line in lines.split(b"\n") if line)
        return [event for event in decoded if event is not None]


def decode_again(name: str, lines: bytes, count: int) -> list[Event]:
    """The events in lines of which `count` were known before. Raises `EventLogError` if something
    else stands there now.
    """
    try:
        events = decode_known(lines)
    except (msgspec.DecodeError, UnicodeDecodeError):
        events = []
    if len(events) < count:
        raise EventLogError(
            f"{name} was changed while it was read: what stood there cannot be shown any more."
        )
    return events


def decode_if_all_known(lines: bytes) -> list[Event] | None:
    """The events in whole lines, in a third of the time of one by one; None if one is unknown or
    damaged.
    """
    try:
        return _event_decoder.decode_lines(lines)
    except msgspec.DecodeError:
        return None
