"""The diff of two moments, against a plain reading of both states: every difference, no more."""

import re
from copy import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tui.drawn_blocks import ids_of
from support.tui.memory_recording import MemoryRecording

from minivllm.events.state import Counters, EngineState
from minivllm.tui.answers.diff import difference


def section(lines: list[str], title: str) -> list[str]:
    """The lines under a title, without their indent."""
    if title not in lines:
        return []
    after = lines[lines.index(title) + 1 :]
    return [line.strip() for line in after[: after.index("") if "" in after else len(after)]]


def blocks_after(lines: list[str], before: EngineState) -> list[tuple[int, bool]]:
    """(reference count, whether it has a hash) of each block: the first state with the changes."""
    counts = [block.ref_cnt for block in before.blocks]
    hashed = [block.hash is not None for block in before.blocks]
    for line in section(lines, "Blocks"):
        change, _, numbers = line.rpartition(": ")
        found = [int(number) for number in re.findall(r"\d+", change)] or [1]
        uses = {
            "newly used": (0, found[0]),
            "freed": (found[0], 0),
            "shared": (found[-1], found[0]),
        }
        use = re.match("newly used|freed|shared", change)
        for block_id in ids_of(numbers):
            if use:
                old, counts[block_id] = uses[use[0]]
                assert old == before.blocks[block_id].ref_cnt
            else:
                assert hashed[block_id] == (change != "newly cached")
                hashed[block_id] = change != "evicted from the cache"
    return list(zip(counts, hashed, strict=True))


def counters_after(lines: list[str], before: EngineState) -> Counters:
    counters = copy(before.counters)
    for line in section(lines, "Counters"):
        found = re.fullmatch(r"(.+) (\d+) to (\d+) \(([-+]\d+)\)", line.replace(",", ""))
        name, (old, new, by) = found[1].replace(" ", "_"), map(int, found.groups()[1:])
        assert getattr(counters, name) == old and old + by == new != old
        setattr(counters, name, new)
    return counters


def check_sequences(lines: list[str], before: EngineState, after: EngineState) -> None:
    told = dict(line.split(": ", 1) for line in section(lines, "Requests and sequences"))
    told = {name: text for name, text in told.items() if not text.startswith("came and went")}
    old = {seq_id.removesuffix(".0"): one for seq_id, one in before.sequences.items()}
    new = {seq_id.removesuffix(".0"): one for seq_id, one in after.sequences.items()}
    assert set(told) == {name for name in {*old, *new} if old.get(name) != new.get(name)}
    for name, text in told.items():
        was, now = old.get(name), new.get(name)
        assert text.startswith("ended") == (now is None)
        assert text.startswith("arrived") == (was is None)
        if was is None or now is None:
            one = was or now
            assert f"{len(one.output_token_ids)} output tokens" in text and one.status in text
            table = re.search(r"blocks ([-\d ]+)$", text)
            assert (ids_of(table[1]) if table else []) == one.block_table
            continue
        lost, gained = (re.search(rf"{word} blocks ([-\d ]+)", text) for word in ("lost", "gained"))
        table = [at for at in was.block_table if not lost or at not in ids_of(lost[1])]
        assert sorted(table + (ids_of(gained[1]) if gained else [])) == sorted(now.block_table)
        for words, value in (
            ("output tokens", lambda one: len(one.output_token_ids)),
            ("computed", lambda one: one.num_computed_tokens),
            ("cached", lambda one: one.num_cached_tokens),
        ):
            change = f"{words} {value(was)} to {value(now)}"
            assert (change in text) == (value(was) != value(now))
        assert bool(re.search(r"slot \w+ to", text)) == (was.slot != now.slot)
        assert (was.status == now.status) or f"{was.status} to {now.status}" in text
        assert (was.num_preemptions == now.num_preemptions) or "preemption" in text
        assert (was.deferred == now.deferred) == ("waits" not in text)


def queues_of(state: EngineState) -> dict[str, list]:
    """The entries under "Queues", by name."""
    return {
        "waiting": state.waiting,
        "running": state.running,
        "free queue": list(state.free_queue),
        "last plan": [(item.seq_id, item.kind, item.num_tokens) for item in state.scheduled],
    }


@pytest.mark.parametrize("name", ["shared_prefix", "memory_pressure", "beams"])
def test_the_lines_explain_every_difference_and_mention_nothing_that_is_equal(
    name: str, request
) -> None:
    run = request.getfixturevalue(name).run()
    recording = MemoryRecording(run.header, run.events)

    @settings(max_examples=12)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        position = st.integers(0, len(run.events))
        first, second = data.draw(position), data.draw(position)
        a, b = recording.view_at_event(first), recording.view_at_event(second)
        lines = difference(a, b)
        before, after = a.fold.state, b.fold.state
        assert blocks_after(lines, before) == [
            (block.ref_cnt, block.hash is not None) for block in after.blocks
        ]
        assert counters_after(lines, before) == after.counters
        check_sequences(lines, before, after)
        was, now = queues_of(before), queues_of(after)
        queues = {line.partition(":")[0] for line in section(lines, "Queues")}
        expected = {name for name in was if was[name] != now[name]}
        if before.budget != after.budget:
            by = after.budget - before.budget
            expected.add(f"budget {before.budget} to {after.budget} ({by:+})")
        assert queues == expected

    check()


def test_requests_between_the_moments_and_one_with_an_old_name_are_named(
    shared_prefix, stage, ask
) -> None:
    run = shared_prefix.run()
    recording = MemoryRecording(run.header, run.events)
    begin = recording.step_begin(1)
    lines = difference(recording.view_at_event(begin), recording.view_at_event(len(run.events)))
    gone = [line for line in lines if "came and went in between (stop), with" in line]
    assert len(gone) == 6 and any(line.strip().startswith("r7: ") for line in gone)
    run = stage([ask("r0", "one two three", "four five six")]).run()
    run.engine.add_request("r0", "seven eight", ask("r0", "", "").params)
    recording = MemoryRecording(run.header, run.events)
    lines = difference(recording.view_at_event(3), recording.view_at_event(len(run.events)))
    told = [line.strip() for line in lines if line.strip().startswith("r0: ")]
    assert [line.split(",")[0] for line in told] == ["r0: ended", "r0: arrived again"]
