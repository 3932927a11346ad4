"""`LLMEngine.set_option`: accepted and refused changes, and no deadlock after a change."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine.engine_fakes import WatchedEngine, expected_beams, expected_output

from minivllm.core.beam_search import BeamSearch
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
    changes = [(one.name, one.value, one.old) for one in engine.events_of(ev.OptionChanged)]
    assert changes == [("max_num_seqs", 4, 8), ("max_num_seqs", 3, 4)]


def test_new_requests_are_checked_against_the_current_max_num_seqs():
    engine = WatchedEngine()
    engine.engine.set_option("max_num_seqs", 3)
    with pytest.raises(InvalidSamplingParamsError, match="runs at most 3 at once"):
        engine.add("wide", [1, 2, 3], n=4)
    engine.engine.set_option("max_num_seqs", 4)
    engine.add("wide", [1, 2, 3], n=4)


@settings(max_examples=30)
@given(
    policy=st.sampled_from(["fcfs", "priority"]),
    num_blocks=st.integers(18, 24),
    # Prompt length, beams (1: none), priority; then steps until the next change, and the new
    # values.
    turns=st.lists(
        st.tuples(
            st.integers(1, 9), st.integers(1, 3), st.integers(0, 2),
            st.integers(0, 5), st.integers(3, 8), st.integers(1, 12),
        ),
        min_size=2,
        max_size=9,
    ),
)  # fmt: skip
def test_beams_under_pressure_end_for_any_changes_of_the_options(policy, num_blocks, turns):
    """Beams wait for a preempted sibling, and sequences over the limit block admission.

    Together these must not deadlock.
    """
    engine = WatchedEngine(num_blocks=num_blocks, scheduling_policy=policy, vocab_size=2)
    for i, (length, width, priority, num_steps, max_num_seqs, budget) in enumerate(turns):
        beams = {"beam_width": width, "n": width} if width > 1 else {}
        ranked = priority if policy == "priority" else 0
        engine.add(f"r{i}", [1, 0] * length, max_tokens=6, priority=ranked, **beams)
        for _ in range(num_steps):
            engine.step()
        engine.engine.set_option("max_num_seqs", max_num_seqs)
        engine.engine.set_option("max_num_batched_tokens", budget)
        engine.compare()
    outputs = engine.run(max_steps=2_000)
    for i, (length, width, *_) in enumerate(turns):
        prompt, found = [1, 0] * length, [one.token_ids for one in outputs[f"r{i}"].outputs]
        if width > 1:
            assert found == expected_beams(prompt, BeamSearch(width, 6, frozenset({99})))
        else:
            assert found == [expected_output(prompt, 6, vocab_size=2)]
