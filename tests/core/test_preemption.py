"""Preemption by recompute: it costs time and never a token."""

import pytest
from support.engine.engine_fakes import WatchedEngine, expected_output

from minivllm.events import types as ev


def prompt(length: int, first: int = 0) -> list[int]:
    return [(first + i) % 99 for i in range(length)]


def crowded(**options: object) -> WatchedEngine:
    """Two requests that each need four blocks of the six there are."""
    engine = WatchedEngine(num_blocks=6, **options)
    engine.add("old", prompt(8), max_tokens=8)
    engine.add("new", prompt(8, first=50), max_tokens=8)
    return engine


def test_the_newest_sequence_is_preempted_when_an_older_one_needs_a_block():
    engine = crowded()
    while not engine.events_of(ev.RequestPreempted):
        engine.step()
    event = engine.events_of(ev.RequestPreempted)[0]
    assert (event.seq_id, event.victim_of) == ("new.0", "old.0")
    assert (event.need, event.free) == (1, 0)
    assert engine.fold.sequences["new.0"].status == "PREEMPTED"
    assert engine.fold.sequences["new.0"].block_table == []


def test_a_preempted_sequence_waits_before_all_that_have_never_run():
    engine = crowded()
    engine.add("third", prompt(12, first=20), max_tokens=2)
    while not engine.events_of(ev.RequestPreempted):
        engine.step()
    assert engine.fold.waiting == ["new.0", "third.0"]


def test_nothing_is_admitted_in_a_step_that_preempted():
    engine = crowded()
    while not engine.events_of(ev.RequestPreempted):
        engine.step()
    assert engine.fold.sequences["new.0"].deferred == ("preempted_this_step", 1, 0)


def test_a_resumed_sequence_keeps_its_output_and_hits_what_is_left_of_its_own_blocks():
    engine = crowded()
    while not engine.events_of(ev.RequestPreempted):
        engine.step()
    kept = list(engine.fold.sequences["new.0"].output_token_ids)
    assert kept
    while not engine.events_of(ev.RequestResumed):
        engine.step()
    assert engine.fold.sequences["new.0"].output_token_ids[: len(kept)].tolist() == kept
    assert engine.fold.counters.resumed_hit_tokens > 0


def test_under_the_priority_policy_the_least_important_is_the_victim():
    engine = WatchedEngine(num_blocks=6, scheduling_policy="priority")
    engine.add("unimportant", prompt(8), max_tokens=8, priority=5)
    engine.step()
    engine.add("important", prompt(8, first=50), max_tokens=8, priority=0)
    engine.run()
    assert {event.seq_id for event in engine.events_of(ev.RequestPreempted)} == {"unimportant.0"}
    assert engine.token_ids("unimportant") == expected_output(prompt(8), 8)


def test_a_victim_that_was_already_in_the_plan_leaves_it_and_gives_its_budget_back():
    """The unimportant one runs first in the list, so it is planned before the important one finds
    no block.
    """
    engine = WatchedEngine(num_blocks=5, scheduling_policy="priority")
    engine.add("unimportant", prompt(7), max_tokens=12, priority=5)
    engine.step()
    engine.add("important", prompt(7, first=50), max_tokens=12, priority=0)
    while not engine.events_of(ev.RequestPreempted):
        engine.step()
    assert [item.seq_id for item in engine.fold.scheduled] == ["important.0"]
    engine.run()
    assert engine.token_ids("unimportant") == expected_output(prompt(7), 12)
    assert engine.token_ids("important") == expected_output(prompt(7, first=50), 12)


def test_a_withdrawn_victim_leaves_no_hash_for_keys_and_values_that_nobody_wrote():
    """The victim's step would have filled block [4 5 6 7]: had it been named, the next prompt would
    read junk.
    """
    engine = WatchedEngine(num_blocks=5, scheduling_policy="priority")
    engine.add("unimportant", prompt(7), max_tokens=12, priority=5)
    engine.step()
    engine.add("important", prompt(8, first=50), max_tokens=12, priority=0)
    for _ in range(30):
        if not engine.engine.has_unfinished_requests():
            break
        engine.step()  # FakeRunner reads back every slot and fails on a stale one
    assert engine.fold.counters.num_preemptions > 0


def test_who_waits_after_a_preempting_step_is_told_of_the_last_shortage_and_not_of_the_first():
    """Blocks of one token. `b` lacks one and takes those of `c`; then `long` lacks more of its
    chunk, and takes those of `b`.
    """
    engine = WatchedEngine(
        num_blocks=18,
        block_size=1,
        max_num_batched_tokens=7,
        scheduling_policy="priority",
        enable_prefix_caching=False,
    )
    for rank, name in enumerate("abc", 1):
        engine.add(name, [rank], max_tokens=12, priority=rank)
    engine.step()
    engine.add("long", prompt(12, first=20), max_tokens=2, priority=0)
    for _ in range(3):
        engine.step()
    preempted = [
        (event.seq_id, event.victim_of, event.need, event.free)
        for event in engine.events_of(ev.RequestPreempted)
    ]
    assert preempted == [("c.0", "b.0", 1, 0), ("b.0", "long.0", 4, 2)]
    assert engine.fold.sequences["b.0"].deferred == ("preempted_this_step", 4, 2)
    assert [item.seq_id for item in engine.fold.scheduled] == ["a.0", "long.0"]
    engine.run()


def test_as_many_go_as_it_takes_and_the_shortage_that_is_told_is_that_before_the_last_of_them():
    """Blocks of one token. The end of `long` lacks six blocks; those of `c` are four."""
    engine = WatchedEngine(
        num_blocks=26,
        block_size=1,
        max_num_batched_tokens=10,
        scheduling_policy="priority",
        enable_prefix_caching=False,
    )
    for rank, name in enumerate("abc", 1):
        engine.add(name, [rank], max_tokens=12, priority=rank)
    engine.step()
    engine.add("long", prompt(20, first=20), max_tokens=2, priority=0)
    for _ in range(3):
        engine.step()
    preempted = engine.events_of(ev.RequestPreempted)
    shortages = [(event.seq_id, event.need, event.free) for event in preempted]
    assert shortages == [("c.0", 6, 0), ("b.0", 6, 4)]
    assert engine.fold.sequences["b.0"].deferred == ("preempted_this_step", 6, 4)


@pytest.mark.parametrize("num_blocks", [5, 7, 9])
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_any_crowd_ends_and_every_token_is_right(num_blocks, policy):
    engine = WatchedEngine(
        num_blocks=num_blocks, scheduling_policy=policy, max_num_batched_tokens=16
    )
    prompts = {f"r{i}": prompt(3 + 2 * i, first=11 * i) for i in range(6)}
    for number, (request_id, token_ids) in enumerate(prompts.items()):
        priority = -number if policy == "priority" else 0
        engine.add(request_id, token_ids, max_tokens=7, priority=priority)
    engine.run(max_steps=500)
    for request_id, token_ids in prompts.items():
        assert engine.token_ids(request_id) == expected_output(token_ids, 7)
