"""A stream that breaks off and reconnects becomes one recording without unreported gaps."""

import msgspec
import pytest

from minivllm.errors import EventLogError
from minivllm.events.recording.lines import decode_line, encode_event
from minivllm.events.recording.stitching import Stitcher
from minivllm.events.types import BlockEvicted, Event, Gap, LogHeader

HEADER = LogHeader(
    engine="1", model="m", clock="monotonic", wall=1000.0, mono=10.0,
    num_blocks=4, block_size=4, max_num_seqs=4, max_num_batched_tokens=4, max_model_len=4,
    scheduling_policy="fcfs", enable_prefix_caching=True,
)  # fmt: skip


def event(seq: int) -> Event:
    return BlockEvicted(seq, seq // 3, 0.5 * seq, 1, "h")


def stitched(stitcher: Stitcher, events: list[Event]) -> list[Event | None]:
    lines = b"".join(stitcher.take(encode_event(event)[:-1]) for event in events)
    return [decode_line(line)[1][0] for line in lines.splitlines()]


def test_repeated_events_are_dropped_and_missing_ones_become_a_gap():
    stitcher = Stitcher(HEADER)
    assert stitcher.last_seq is None
    assert stitched(stitcher, [event(0), event(1)]) == [event(0), event(1)]
    assert stitcher.last_seq == 1
    assert stitched(stitcher, [event(0), event(1), event(2)]) == [event(2)]
    assert stitched(stitcher, [event(6)]) == [Gap(5, 2, 3.0, 3), event(6)]


def test_a_gap_of_the_server_counts_only_what_did_not_arrive():
    stitcher = Stitcher(HEADER)
    told = Gap(9, 3, 4.5, lost=8)
    assert stitched(stitcher, [event(0), event(1), event(2), event(3), told, event(10)])[4:] == [
        msgspec.structs.replace(told, lost=6),
        event(10),
    ]
    assert stitched(stitcher, [told]) == [], "everything had arrived"


@pytest.mark.parametrize(
    ("fields", "continues"),
    [
        ({}, True),
        ({"first_seq": 5}, True),
        ({"wall": 1060.2, "mono": 70.0, "first_seq": 2}, True),
        ({"wall": 1001.0, "mono": 11.0, "first_seq": 9}, True),
        ({"model": "other"}, False),
        ({"num_blocks": 5}, False),
        ({"wall": 2000.0, "mono": 10.0, "first_seq": 2}, False),
        # Restarted on the same machine: the clock agrees, but the numbers begin again.
        ({"wall": 1060.0, "mono": 70.0, "first_seq": 0}, False),
    ],
)
def test_a_new_connection_continues_the_same_run_and_refuses_another(fields, continues):
    stitcher, header = Stitcher(HEADER), msgspec.structs.replace(HEADER, **fields)
    stitched(stitcher, [event(0), event(1)])
    if not continues:
        with pytest.raises(EventLogError, match="runs another engine now"):
            stitcher.resume(header)
        return
    stitcher.resume(header)
    assert stitched(stitcher, [event(1), event(2)]) == [event(2)]
