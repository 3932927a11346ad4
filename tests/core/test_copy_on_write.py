"""Parallel sampling: one prefill, shared blocks, and a copy only where two would write."""

import pytest
from support.engine.engine_fakes import WatchedEngine, expected_output, prompt

from minivllm.errors import RequestTooLargeError
from minivllm.events import types as ev
from minivllm.sampling_params import RequestOutputKind


def samples(engine: WatchedEngine, request_id: str) -> list[list[int]]:
    return [output.token_ids for output in engine.outputs[request_id].outputs]


def expected_samples(token_ids: list[int], max_tokens: int, n: int) -> list[list[int]]:
    return [expected_output(token_ids, max_tokens, index=i) for i in range(n)]


def test_samples_share_one_prefill_and_all_but_the_last_copy_the_partial_block():
    engine = WatchedEngine()
    engine.add("a", prompt(10), n=3)  # [0 1 2 3] [4 5 6 7] [8 9 . .]
    engine.step()
    assert engine.runner.num_tokens_run == 10
    tables = [engine.fold.sequences[f"a.{i}"].block_table for i in range(3)]
    assert tables == [[0, 1, 2]] * 3
    assert [engine.fold.blocks[i].ref_cnt for i in range(3)] == [3, 3, 3]
    engine.step()
    tables = [engine.fold.sequences[f"a.{i}"].block_table for i in range(3)]
    assert tables == [[0, 1, 3], [0, 1, 4], [0, 1, 2]]
    engine.run()
    copies = [(copy.src, copy.seq_id, copy.logical) for copy in engine.events_of(ev.BlockCopied)]
    assert copies == [(2, "a.0", 2), (2, "a.1", 2)], "from then on each has its own block"
    assert samples(engine, "a") == expected_samples(prompt(10), 8, 3)


def test_a_victims_copy_is_dropped_when_its_block_gets_a_new_owner():
    """The copies of the important request take blocks of the other request."""
    engine = WatchedEngine(num_blocks=6, scheduling_policy="priority")
    engine.add("victim", prompt(6), max_tokens=2, n=3, priority=5)
    engine.add("important", prompt(6, first=50), max_tokens=2, n=3, priority=0)
    engine.step()
    # The important request is admitted first, but the other one must be planned first.
    assert engine.fold.running[0] == "important.0"
    engine.scheduler.running.sort(key=lambda sequence: -sequence.request.priority)
    plan = engine.scheduler.schedule(0.0)
    copied = [(event.seq_id, event.dst) for event in engine.events_of(ev.BlockCopied)]
    names = ["victim.0", "victim.1", "important.0", "important.1"]
    assert [seq_id for seq_id, _ in copied] == names
    assert copied[3][1] == copied[1][1], "important.1 now has the block of victim.1"
    assert len(plan.copies) == 3 and len({copy.dst for copy in plan.copies}) == 3
    (last,) = [copy for copy in plan.copies if copy.dst == copied[3][1]]
    assert last.src == engine.events_of(ev.BlockCopied)[3].src


def test_best_of_gives_back_the_most_probable_samples():
    engine = WatchedEngine()
    engine.add("a", prompt(10), max_tokens=4, n=2, best_of=4)
    engine.run()
    outputs = engine.outputs["a"].outputs
    assert [out.index for out in outputs] == [0, 1]
    # The fake model gives sample i a log-probability of -1 - i per token.
    assert [out.token_ids for out in outputs] == expected_samples(prompt(10), 4, 2)
    assert [out.logprobs for out in outputs] == [None, None], "log-probabilities were not requested"


@pytest.mark.parametrize("red", ["red", "\ud83d"], ids=["a word", "half a surrogate pair"])
def test_requests_with_different_salts_never_share_and_equal_salts_do(red):
    engine = WatchedEngine()
    cached = []
    for number, salt in enumerate([red, "?", red, None]):
        engine.add(f"r{number}", prompt(9), max_tokens=1, cache_salt=salt)
        cached.append(engine.run()[f"r{number}"].num_cached_tokens)
    assert cached == [0, 0, 8, 0]


@pytest.mark.parametrize("params", [{"best_of": 3}, {"beam_width": 3, "ignore_eos": True}])
def test_samples_that_are_chosen_at_the_end_come_at_the_end(params):
    engine, outputs = WatchedEngine(), []
    kind = RequestOutputKind.DELTA
    engine.add("a", prompt(10), max_tokens=6, output_kind=kind, **params)
    while engine.engine.has_unfinished_requests():
        outputs += engine.step()
    (output,) = outputs
    assert output.finished and len(output.outputs[0].token_ids) == 6


def test_samples_whose_blocks_can_never_fit_are_refused():
    # Two shared full blocks, and two more for each of four samples.
    sentence = r"needs up to 10 KV cache blocks.*in each of 4 sequences"
    with pytest.raises(RequestTooLargeError, match=sentence):
        WatchedEngine(num_blocks=8).add("a", prompt(10), max_tokens=6, n=4)
