"""The ring of the newest events: what it keeps and drops, and its cost for the engine."""

import threading

from minivllm.events import types as ev
from minivllm.events.recording.lines import decode_line, encode_event
from minivllm.server.feeds.event_ring import EventRing
from minivllm.tui.sources.event_stream import SseMessage, SseParser


def test_the_ring_drops_the_oldest_prompts_when_their_total_is_too_long():
    ring = EventRing(0, 100, num_tokens=1000)
    for seq in range(50):
        arrival = ev.RequestArrived(seq, 0, 0.0, "a", "a.0", 0, [7] * 300, 1)
        ring.put(ev.StepBegin(seq, 0, 0.0, 5) if seq % 5 else arrival)
    kept = [event for event in ring._slots if isinstance(event, ev.RequestArrived)]
    assert [event.seq for event in kept] == [35, 40, 45] and ring.first_seq == 31
    data, next_seq = ring.take(0)
    first, *rest = [decode_line(m.data)[1][0] for m in SseParser().feed(data)]
    assert first == ev.Gap(30, 0, 0.0, 31) and [event.seq for event in rest] == list(range(31, 50))
    assert next_seq == 50


def test_a_prompt_longer_than_the_ring_becomes_a_gap_and_later_events_survive():
    ring = EventRing(0, 100, num_tokens=1000)
    ring.put(ev.RequestArrived(0, 0, 0.0, "a", "a.0", 0, [7] * 3000, 1))
    assert ring.take(0) == (b"", 0)
    ring.put(ev.StepBegin(1, 0, 0.0, 5))
    gap, step = [decode_line(m.data)[1][0] for m in SseParser().feed(ring.take(0)[0])]
    assert gap == ev.Gap(0, 0, 0.0, 1) and step.seq == 1


def test_readers_never_see_a_wrong_or_repeated_event_while_the_engine_overtakes_them():
    ring = EventRing(0, 32, num_tokens=1000)
    done = threading.Event()

    def engine() -> None:
        for seq in range(20_000):
            ring.put(ev.StepBegin(seq, seq, 0.0, seq))
        done.set()

    thread = threading.Thread(target=engine)
    thread.start()
    expected, seq = 0, 0
    while not done.is_set() or seq < ring.next_seq:
        data, seq = ring.take(seq)
        for message in SseParser().feed(data):
            event = decode_line(message.data)[1][0]
            if isinstance(event, ev.Gap):
                assert event.seq + 1 - event.lost == expected
            else:
                assert event.seq == expected == event.budget
            expected = event.seq + 1
    thread.join()
    assert expected == 20_000


def test_a_piece_is_bounded_and_the_next_continues_where_it_ended():
    ring = EventRing(0, 20_000, num_tokens=1000)
    for seq in range(20_000):
        ring.put(ev.StepBegin(seq, 0, 0.0, 5))
    seq, pieces = 0, []
    while (taken := ring.take(seq))[0]:
        data, seq = taken
        pieces.append(data)
    assert len(pieces) > 2 and max(map(len, pieces)) < 300_000
    last = SseParser().feed(b"".join(pieces))[-1]
    assert last == SseMessage("message", encode_event(ev.StepBegin(19_999, 0, 0.0, 5))[:-1])
