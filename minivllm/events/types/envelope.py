"""What stands around every event: the first line of a log, and the envelope that all kinds
share.
"""

from typing import ClassVar, Literal

import msgspec

SCHEMA_NAME = "minivllm.trace"
SCHEMA_VERSION = 1
"""Goes up when an old reader would misread a new log. New kinds and new fields do not need it."""


class LogHeader(msgspec.Struct, tag_field="ev", tag="meta", kw_only=True, omit_defaults=True):
    """First line of every log: what a reader must know before the first event."""

    schema: str = SCHEMA_NAME
    version: int = SCHEMA_VERSION
    engine: str
    """Version of minivllm that wrote the log."""
    model: str
    clock: Literal["monotonic", "virtual"]
    wall: float
    """Unix time, seconds, at the moment when the engine's clock showed `mono`."""
    mono: float
    first_seq: int = 0
    """`seq` of the event after this line; over 0 where a recording begins in the middle of a
    run.
    """
    num_blocks: int
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    scheduling_policy: str
    enable_prefix_caching: bool
    config: dict[str, object] = {}
    """Every other option, as given."""
    run: str = ""
    """Names this one run, where a reader may come back and meet another one: in the event stream of
    a server.
    """


class Event(msgspec.Struct, tag_field="ev", omit_defaults=True, frozen=True, gc=False):
    """The envelope. `seq` counts events from 0 without a gap; `t` is seconds on the engine's
    clock.
    """

    seq: int
    """Number of the event, from 0."""
    step: int
    """Number of the step in which it happened; between two steps, that of the last one."""
    t: float
    """Seconds, on the engine's clock."""
    rule: ClassVar[str]
