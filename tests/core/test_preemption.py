"""Preemption by recomputation costs time, never a token."""

import pytest
from support.engine.engine_fakes import WatchedEngine, expected_output, prompt

from minivllm.events import types as ev


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_the_newest_sequence_waits_first_in_the_queue_and_resumes_with_its_output(policy):
    """With the policy `priority`, too: the three have the same."""
    engine = WatchedEngine(num_blocks=6, scheduling_policy=policy)
    engine.add("old", prompt(8), max_tokens=8)
    engine.add("new", prompt(8, first=50), max_tokens=8)
    engine.add("third", prompt(12, first=20), max_tokens=2)
    while not engine.events_of(ev.RequestPreempted):
        engine.step()
    (event,) = engine.events_of(ev.RequestPreempted)
    assert (event.seq_id, event.victim_of, event.need, event.free) == ("new.0", "old.0", 1, 0)
    victim = engine.fold.sequences["new.0"]
    assert (victim.status, victim.block_table) == ("PREEMPTED", [])
    # A step that preempts admits nothing.
    assert victim.deferred == ("preempted_this_step", 1, 0)
    assert engine.fold.waiting == ["new.0", "third.0"]
    kept = list(victim.output_token_ids)
    while not engine.events_of(ev.RequestResumed):
        engine.step()
    assert kept == engine.fold.sequences["new.0"].output_token_ids[: len(kept)].tolist() != []
    assert engine.fold.counters.resumed_hit_tokens > 0, "it hits the rest of its own blocks"
    engine.run()
    assert engine.token_ids("new") == expected_output(prompt(8, first=50), 8)


@pytest.mark.parametrize(
    "options, length, shortages",
    [
        # `b` lacks a block and takes those of `c`. Then `long` lacks more and takes those of `b`.
        ({"num_blocks": 18, "max_num_batched_tokens": 7}, 12, [("c.0", 1, 0), ("b.0", 4, 2)]),
        # The end of `long` lacks six blocks. `c` has four, so `b` is preempted as well.
        ({"num_blocks": 26, "max_num_batched_tokens": 10}, 20, [("c.0", 6, 0), ("b.0", 6, 4)]),
    ],
    ids=["two shortages", "two victims for one"],
)
def test_after_preemptions_waiting_requests_report_the_last_shortage(options, length, shortages):
    engine = WatchedEngine(
        block_size=1, scheduling_policy="priority", enable_prefix_caching=False, **options
    )
    for rank, name in enumerate("abc", 1):
        engine.add(name, [rank], max_tokens=12, priority=rank)
    engine.step()
    engine.add("long", prompt(length, first=20), max_tokens=2, priority=0)
    for _ in range(3):
        engine.step()
    preempted = engine.events_of(ev.RequestPreempted)
    assert [(event.seq_id, event.need, event.free) for event in preempted] == shortages
    assert engine.fold.sequences["b.0"].deferred == ("preempted_this_step", *shortages[-1][1:])
    assert [item.seq_id for item in engine.fold.scheduled] == ["a.0", "long.0"]
    engine.run()
