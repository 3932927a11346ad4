"""`LLMEngine.set_option`: accepted and refused changes, and no deadlock after a change."""

import pytest
from support.engine.engine_fakes import WatchedEngine

from minivllm.errors import ConfigError, InvalidSamplingParamsError
from minivllm.events import types as ev


@pytest.mark.parametrize(
    "name, value, sentence",
    [
        # Without chunking the budget must still hold the longest prompt.
        ("max_num_batched_tokens", 39, r"raise max_num_batched_tokens \(39\) to max_model_len"),
        ("max_num_seqs", 0, "whole number, at least 1; got 0"),
        ("max_num_seqs", 9, "at most 8, .*; got 9"),
        ("block_size", 8, "'block_size' cannot be changed.*max_num_batched_tokens, max_num_seqs"),
    ],
)
def test_a_bad_change_is_refused_in_one_sentence_and_leaves_no_trace(name, value, sentence):
    engine = WatchedEngine(enable_chunked_prefill=False, max_model_len=40)
    engine.add("a", [1, 2, 3])
    engine.step()
    num_events, state = len(engine.events), engine.engine.inspect()
    with pytest.raises(ConfigError, match=sentence) as caught:
        engine.engine.set_option(name, value)
    assert "\n" not in str(caught.value)
    assert (len(engine.events), engine.engine.inspect()) == (num_events, state)
    engine.engine.set_option("max_num_batched_tokens", 40)  # just enough
    engine.compare()


@pytest.mark.parametrize("how", [{"n": 4}, {"n": 2, "best_of": 4}, {"beam_width": 4}])
def test_slots_that_an_accepted_request_needs_at_once_cannot_be_taken_away(how):
    engine = WatchedEngine()
    engine.add("narrow", [1, 2, 3])
    engine.add("wide", [1, 2, 3], **how)  # still waiting
    sentence = "'wide' runs 4 sequences at once; .* abort it"
    with pytest.raises(ConfigError, match=sentence):
        engine.engine.set_option("max_num_seqs", 3)
    for _ in range(2):  # the second time changes nothing, and no event says so
        engine.engine.set_option("max_num_seqs", 4)
    engine.compare()
    engine.step()
    with pytest.raises(ConfigError, match="'wide'"):
        engine.engine.set_option("max_num_seqs", 3)
    engine.run()
    engine.engine.set_option("max_num_seqs", 3)
    engine.engine.set_option("max_num_seqs", 8)  # the value at the start
    changes = [(event.name, event.value, event.old) for event in engine.events_of(ev.OptionChanged)]
    assert changes == [("max_num_seqs", new, old) for new, old in ((4, 8), (3, 4), (8, 3))]


def test_new_requests_are_checked_against_the_current_max_num_seqs():
    engine = WatchedEngine()
    engine.engine.set_option("max_num_seqs", 3)
    with pytest.raises(InvalidSamplingParamsError, match="runs at most 3 at once"):
        engine.add("wide", [1, 2, 3], n=4)
    engine.engine.set_option("max_num_seqs", 4)
    engine.add("wide", [1, 2, 3], n=4)
