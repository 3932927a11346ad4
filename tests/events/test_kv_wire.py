"""KV events as vLLM sends them: both encodings are read, and unknown kinds are skipped."""

import msgspec
import pytest

from minivllm.errors import EventLogError
from minivllm.events.vllm_kv_wire import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    decode_batch,
    encode_batch,
)

# One batch, written by vLLM 0.32.0's own types; then with events as arrays, as before June 2026.
RECORDED_MAPS = bytes.fromhex(
    "93cb41dabf61b01000009481a474797065b0416c6c426c6f636b73436c65617265648aa474797065ab426c6f636b"
    "53746f726564ac626c6f636b5f68617368657392cf80000000000000054db1706172656e745f626c6f636b5f6861"
    "7368c0a9746f6b656e5f6964739801020304050607ce00013880aa626c6f636b5f73697a6504a76c6f72615f6964"
    "c0a66d656469756da3475055a96c6f72615f6e616d65c0aa65787472615f6b6579739291a473616c74c0a967726f"
    "75705f6964780089a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391c4200101010101"
    "010101010101010101010101010101010101010101010101010101b1706172656e745f626c6f636b5f686173684d"
    "a9746f6b656e5f69647394090a0b0caa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da34750"
    "55a96c6f72615f6e616d65c0a967726f75705f6964780084a474797065ac426c6f636b52656d6f766564ac626c6f"
    "636b5f686173686573914da66d656469756da3475055a967726f75705f6964780000"
)
RECORDED_ARRAYS = bytes.fromhex(
    "93cb41dabf61b01000009491b0416c6c426c6f636b73436c65617265649fab426c6f636b53746f72656492cf8000"
    "0000000000054dc09801020304050607ce0001388004c0a3475055c09291a473616c74c000c0c0c0c0c09fab426c"
    "6f636b53746f72656491c42001010101010101010101010101010101010101010101010101010101010101014d94"
    "090a0b0c04c0a3475055c0c000c0c0c0c0c096ac426c6f636b52656d6f766564914da347505500c0c000"
)
EVENTS = [
    AllBlocksCleared(),
    BlockStored([2**63 + 5, 77], None, [1, 2, 3, 4, 5, 6, 7, 80_000], 4, medium="GPU"),
    BlockStored([b"\x01" * 32], 77, [9, 10, 11, 12], 4, medium="GPU"),
    BlockRemoved([77], medium="GPU"),
]


@pytest.mark.parametrize("recorded", [RECORDED_MAPS, RECORDED_ARRAYS], ids=["maps", "arrays"])
def test_a_batch_that_vllm_wrote_is_read_in_either_encoding(recorded):
    assert decode_batch(recorded) == (1795000000.25, EVENTS, 0)


@pytest.mark.parametrize("encoding", ["map", "array"])
def test_a_written_batch_is_read_back(encoding):
    assert decode_batch(encode_batch(3.5, EVENTS, encoding)) == (3.5, EVENTS, 0)


def test_events_with_fewer_fields_are_read_and_unknown_kinds_are_counted():
    old = [["BlockStored", [7], None, [1, 2], 2, None], ["BlockRemoved", [7]]]
    new = [{"type": "BlockMoved", "to": 3}, ["BlockSwapped", 1]]
    batch = msgspec.msgpack.encode([1.0, [*old, *new]])
    read = [BlockStored([7], None, [1, 2], 2), BlockRemoved([7])]
    assert decode_batch(batch) == (1.0, read, 2)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        msgspec.msgpack.encode([1.0, [{"type": "BlockRemoved", "block_hashes": "many"}], 0]),
        msgspec.msgpack.encode([1.0, [["BlockStored", [1], None]], 0]),
        msgspec.msgpack.encode(["late", [], 0]),
    ],
)
def test_an_invalid_batch_is_one_typed_error(payload):
    with pytest.raises(EventLogError, match="not a batch of KV events"):
        decode_batch(payload)
