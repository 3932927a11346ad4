"""vLLM's KV events as they travel: what a batch of them looks like in msgpack, in both of its
encodings.

    [ts, [event, ...], data_parallel_rank]        a batch
    {"type": "BlockStored", "block_hashes": ...}  an event, since June 2026 (vLLM #42892)
    ["BlockStored", [...], ...]                   the same event before: fields by position

`minivllm.server` writes them and `attach --vllm` reads them; both sides stand here, so that they
cannot part. Knows neither sockets nor where events come from.

The easy thing to get wrong is to read strictly. vLLM adds fields with every other release and whole
kinds now and then: what is not known here is passed over, and only what we do read must be right.

Source: vLLM `vllm/distributed/kv_events.py`.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from minivllm.errors import EventLogError

KVEventEncoding = Literal["map", "array"]
BlockName = int | bytes
"""How vLLM names a block's content: the low 64 bits of its hash, or all of it."""

END_SEQ = (-1).to_bytes(8, "big", signed=True)
"""Stands for the sequence number after the last batch of a replay."""


class BlockStored(msgspec.Struct, tag=True, gc=False):
    """Blocks that follow one another got their names in the prefix cache."""

    block_hashes: list[BlockName]
    parent_block_hash: BlockName | None
    token_ids: list[int]
    """Of all of these blocks."""
    block_size: int
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | None = None


class BlockRemoved(msgspec.Struct, tag=True, gc=False):
    """These names lead to nothing any more."""

    block_hashes: list[BlockName]
    medium: str | None = None


class AllBlocksCleared(msgspec.Struct, tag=True, gc=False):
    """Nothing is cached any more."""


KVEvent = BlockStored | BlockRemoved | AllBlocksCleared
_KINDS: dict[str, type[KVEvent]] = {kind.__name__: kind for kind in KVEvent.__args__}


class KVEventBatch(NamedTuple):
    """What one step of an engine did to its prefix cache."""

    ts: float
    """Unix time."""
    events: list[KVEvent]
    num_unknown: int = 0
    """Events of kinds that this version does not know."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()


def encode_batch(ts: float, events: Sequence[KVEvent], encoding: KVEventEncoding) -> bytes:
    """A batch of data-parallel rank 0."""
    if encoding == "map":
        return _encoder.encode((ts, events, 0))
    return _encoder.encode(
        (ts, [(type(event).__name__, *msgspec.structs.astuple(event)) for event in events], 0)
    )


def decode_batch(payload: bytes) -> KVEventBatch:
    """A batch in either encoding. Raises `EventLogError` for what is none."""
    try:
        batch = _decoder.decode(payload)
        # One release had the batch itself as a map.
        ts, events = (batch["ts"], batch["events"]) if isinstance(batch, dict) else batch[:2]
        known = [event for event in map(_read_event, events) if event is not None]
        return KVEventBatch(float(ts), known, len(events) - len(known))
    except (msgspec.MsgspecError, KeyError, IndexError, TypeError, ValueError) as error:
        raise EventLogError(f"What came is no batch of KV events: {error}.") from error


def _read_event(event: object) -> KVEvent | None:
    if isinstance(event, dict):
        kind, fields = _KINDS.get(event["type"]), event
    else:
        tag, *values = event
        kind = _KINDS.get(tag)
        fields = dict(zip(kind.__struct_fields__ if kind else (), values, strict=False)) | {
            "type": tag
        }
    return None if kind is None else msgspec.convert(fields, kind)
