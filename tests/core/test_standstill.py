"""Beams that wait for a preempted sibling must not block the request ahead of that sibling."""

import pytest
from support.engine.engine_fakes import WatchedEngine, expected_beams, expected_output

from minivllm.core.beam_search import BeamSearch
from minivllm.events import types as ev


@pytest.mark.parametrize(
    "prompt, params, max_num_seqs",
    [
        # It is ahead of the preempted beam in the queue, and needs more than the other beam leaves.
        ([9] * 30, {"max_tokens": 6}, 8),
        # When `other` has ended, the waiting beam holds one of two slots, and this request needs
        # both.
        ([9] * 2, {"max_tokens": 4, "n": 2}, 2),
    ],
    ids=["too few blocks", "too few slots since the limit was lowered"],
)
def test_beams_that_wait_for_a_preempted_sibling_yield_to_a_more_important_request(
    prompt, params, max_num_seqs
):
    engine = WatchedEngine(num_blocks=10, scheduling_policy="priority", enable_prefix_caching=False)
    engine.add("beams", [2, 2, 3], max_tokens=14, n=2, use_beam_search=True, priority=5)
    engine.add("other", [7] * 4, max_tokens=16, priority=4)
    for _ in range(14):
        engine.step()
    assert engine.events_of(ev.RequestPreempted)
    engine.add("urgent", prompt, priority=0, **params)
    engine.engine.set_option("max_num_seqs", max_num_seqs)
    outputs = engine.run(max_steps=200)
    search = BeamSearch(width=2, max_tokens=14, eos_token_ids=frozenset({99}))
    assert [out.token_ids for out in outputs["beams"].outputs] == expected_beams([2, 2, 3], search)
    for i, sample in enumerate(outputs["urgent"].outputs):
        assert sample.token_ids == expected_output(prompt, params["max_tokens"], index=i)
    (made_way,) = [
        event for event in engine.events_of(ev.RequestPreempted) if "urgent" in event.victim_of
    ]
    # The numbers are blocks, even if it was slots that were short.
    assert made_way.need == -(-len(prompt) // engine.scheduler.kv_cache_manager.block_size)
    assert (made_way.need > made_way.free) == (max_num_seqs == 8)


def test_a_step_with_a_preemption_is_progress_and_spares_the_waiting_beams():
    """One of two beams must be recomputed; `other` then lacks a block and is preempted."""
    engine = WatchedEngine(num_blocks=4, scheduling_policy="priority", enable_prefix_caching=False)
    engine.add("beams", [2, 3, 4, 5, 6, 7, 8], max_tokens=2, n=2, use_beam_search=True, priority=0)
    engine.add("other", [9] * 7, max_tokens=4, priority=5)
    engine.step()
    first, second = engine.scheduler.requests["beams"].sequences
    engine.scheduler.requeue(second, first)
    engine.step()
    engine.step()
    preempted = [event.seq_id for event in engine.events_of(ev.RequestPreempted)]
    assert preempted == [second.seq_id, "other.0"]
    assert (engine.fold.scheduled, engine.fold.running) == ([], [first.seq_id])
    outputs = engine.run(max_steps=50)
    assert outputs["other"].outputs[0].token_ids == expected_output([9] * 7, 4)


def test_beams_behind_a_request_in_its_batch_delay_are_not_preempted():
    engine = WatchedEngine(
        scheduling_policy="priority", batch_delay=0.2, batch_size=3, enable_prefix_caching=False
    )
    engine.add("beams", [2, 3, 4, 5, 6], max_tokens=4, n=2, use_beam_search=True, priority=5)
    for name in ("neighbour", "another neighbour"):
        engine.add(name, [7], max_tokens=1, priority=5)
    while not engine.events_of(ev.RequestForked):
        engine.step()
    first, second = engine.scheduler.requests["beams"].sequences
    num_free = engine.pool.num_free_blocks
    engine.scheduler.requeue(second, first)
    engine.add("urgent", [9] * 4, max_tokens=2, priority=0)
    engine.step()
    engine.step()
    assert (engine.fold.scheduled, engine.fold.running) == ([], [first.seq_id])
    assert engine.fold.sequences["urgent.0"].deferred == ("batch_delay", 3, 2)
    (anew,) = engine.events_of(ev.RequestPreempted)
    assert (anew.seq_id, anew.need, anew.free) == (second.seq_id, 0, num_free)
    assert num_free > 0
    engine.run(max_steps=50)
