"""vLLM's KV cache events on the wire: how a batch looks in msgpack, in both encodings.

    [ts, [event, ...], data_parallel_rank]        a batch
    {"type": "BlockStored", "block_hashes": ...}  an event, since June 2026 (vLLM #42892)
    ["BlockStored", [...], ...]                   the same event before that: fields by position

`minivllm.server` writes batches and `attach --vllm` reads them. vLLM adds fields and kinds of
events, so unknown ones are ignored.

Source: vLLM `vllm/distributed/kv_events.py`.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from minivllm.errors import EventLogError

KVEventEncoding = Literal["map", "array"]
BlockName = int | bytes
"""vLLM's name for a block's content: the hash, or the low 64 bits of the hash."""

END_SEQ = (-1).to_bytes(8, "big", signed=True)
"""Sequence number that ends a replay."""


class BlockStored(msgspec.Struct, tag=True, gc=False):
    """A chain of blocks was registered in the prefix cache."""

    block_hashes: list[BlockName]
    parent_block_hash: BlockName | None
    token_ids: list[int]
    """Tokens of all blocks in the chain."""
    block_size: int
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | None = None


class BlockRemoved(msgspec.Struct, tag=True, gc=False):
    """These blocks were evicted from the prefix cache."""

    block_hashes: list[BlockName]
    medium: str | None = None


class AllBlocksCleared(msgspec.Struct, tag=True, gc=False):
    """The prefix cache is empty."""


KVEvent = BlockStored | BlockRemoved | AllBlocksCleared
_KINDS: dict[str, type[KVEvent]] = {kind.__name__: kind for kind in KVEvent.__args__}


class KVEventBatch(NamedTuple):
    """The changes to the prefix cache in one step of an engine."""

    ts: float
    """Unix time, in seconds."""
    events: list[KVEvent]
    num_unknown: int = 0
    """Number of ignored events of unknown kinds."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()


def encode_batch(ts: float, events: Sequence[KVEvent], encoding: KVEventEncoding) -> bytes:
    """Encode a batch of data-parallel rank 0."""
    if encoding == "map":
        return _encoder.encode((ts, events, 0))
    return _encoder.encode(
        (ts, [(type(event).__name__, *msgspec.structs.astuple(event)) for event in events], 0)
    )


def decode_batch(payload: bytes) -> KVEventBatch:
    """Decode a batch in either encoding. Raise `EventLogError` if it is not a batch."""
    try:
        batch = _decoder.decode(payload)
        # In one release of vLLM, the batch itself was a map.
        ts, events = (batch["ts"], batch["events"]) if isinstance(batch, dict) else batch[:2]
        known = [event for event in map(_read_event, events) if event is not None]
        return KVEventBatch(float(ts), known, len(events) - len(known))
    except (msgspec.MsgspecError, KeyError, IndexError, TypeError, ValueError) as error:
        raise EventLogError(f"The data is not a batch of KV events: {error}.") from error


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
