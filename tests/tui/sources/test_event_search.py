"""Finding events: the meaning of a filter, the extent of a search, and events by number."""

from hypothesis import given, settings
from hypothesis import strategies as st
from support.tui.memory_recording import MemoryRecording

from minivllm.events import types as ev
from minivllm.tui.time.event_search import EVENTS_PER_LOOK, EventFilter, EventSearch

VERBS = ("allocated", "hashed", "hit", "released", "freed", "evicted")
OF_A_BLOCK = {f"block.{verb}" for verb in VERBS}


def many(count: int, header: ev.LogHeader, rare: frozenset[int] = frozenset()) -> MemoryRecording:
    """A long recording of plain events, with an eviction at each of `rare`."""
    events = [ev.StepBegin(seq, seq // 10, seq / 10, 64) for seq in range(count)]
    for seq in rare & set(range(count)):
        events[seq] = ev.BlockEvicted(seq, seq // 10, seq / 10, 3, "x")
    return MemoryRecording(header, events)


def test_a_word_is_searched_in_kinds_and_blocks(memory_pressure) -> None:
    events = memory_pressure.run().events
    for text, kinds in {
        "preempted": {"request.preempted"}, "Block.Ev": {"block.evicted"}, "b17": OF_A_BLOCK,
        "nothing": set(),
    }.items():  # fmt: skip
        wanted, others = EventFilter.parse(text), EventFilter.parse(f"! {text}")
        assert {event.__struct_config__.tag for event in events if wanted.accepts(event)} == kinds
        assert all(wanted.accepts(event) != others.accepts(event) for event in events)
    assert {EventFilter.parse(none) for none in ("", "  ", "!", " ! ")} == {None}


@settings(max_examples=20)
@given(st.data())
def test_a_search_finds_what_a_scan_of_everything_finds(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 9_000))
    rare = frozenset(data.draw(st.lists(st.integers(0, max(count - 1, 0)), max_size=60)))
    recording = many(count, None, rare)
    search = EventSearch(EventFilter("evicted"))
    for position in data.draw(st.lists(st.integers(0, count), min_size=1, max_size=4)):
        for _ in range(100):
            before = recording.num_read
            search.look(recording, position, enough=5)
            assert recording.num_read - before <= EVENTS_PER_LOOK + 2 * 1000
            if search.done:
                break
        assert search.done
        everything = sorted(at for at in rare if at < count)
        at = search.num_before(position)
        earlier = [at for at in everything if at < position]
        assert search.found[max(at - 5, 0) : at] == earlier[-5:]
        assert search.found[at : at + 5] == everything[len(earlier) :][:5]
        assert all(search.events[index] is recording.all[index] for index in search.found)
