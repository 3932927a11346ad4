"""Beam search in the engine finds what the search over plain lists finds."""

import gc

import pytest
from support.engine.engine_fakes import EOS, WatchedEngine, expected_beams, prompt

from minivllm.core.beam_search import BeamSearch, Candidate
from minivllm.errors import InvalidRequestError
from minivllm.events import types as ev
from minivllm.outputs import Logprob, SampledToken


def search(width: int, max_tokens: int, **options: object) -> BeamSearch:
    return BeamSearch(width=width, max_tokens=max_tokens, eos_token_ids=frozenset({EOS}), **options)


def found(engine: WatchedEngine, request_id: str) -> list[list[int]]:
    return [output.token_ids for output in engine.outputs[request_id].outputs]


STOPS = list(range(0, 99, 3))


@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize(
    ("params", "max_model_len", "ends"),
    [
        ({}, 10_000, {EOS}),
        ({"early_stopping": True}, 10_000, {EOS}),
        ({"early_stopping": "never", "length_penalty": 2.0}, 10_000, {EOS}),
        ({}, 12, {EOS}),
        ({"ignore_eos": True}, 10_000, set()),
        ({"stop_token_ids": STOPS}, 10_000, {EOS, *STOPS}),
    ],
    ids=["usual", "early", "never", "short context", "end ignored", "stop tokens"],
)
def test_the_engine_finds_what_the_search_over_lists_finds(width, params, max_model_len, ends):
    engine, continued = WatchedEngine(max_model_len=max_model_len), False
    rules = {name: params[name] for name in params if name in ("early_stopping", "length_penalty")}
    for i in range(6):
        beams = {"n": width, "use_beam_search": True, **params}
        engine.add(f"r{i}", prompt(5 + i, first=17 * i), max_tokens=9, **beams)
    engine.run()
    for i in range(6):
        length = min(9, max_model_len - (5 + i))
        own = BeamSearch(width, length, frozenset(ends), **rules)
        assert found(engine, f"r{i}") == expected_beams(prompt(5 + i, first=17 * i), own)
        for output in engine.outputs[f"r{i}"].outputs:
            last = output.token_ids[-1]
            reason = "stop" if last in ends else "length", last if last in ends - {EOS} else None
            assert (output.finish_reason, output.stop_reason) == reason
            continued |= EOS in output.token_ids[:-1]
    assert engine.fold.counters.forked_sequences > 0
    assert engine.events_of(ev.BeamPruned)
    assert width < 4 or continued == (EOS not in ends), "beams continue behind an ignored end"


def test_a_sampled_token_that_is_not_among_the_best_does_not_continue_a_beam():
    engine = WatchedEngine()

    def with_a_bad_token_first(sequence):
        best = engine.runner.sample(sequence).logprobs
        return SampledToken(50, {50: Logprob(-99.0, 90)} | best)

    engine.runner.draw = with_a_bad_token_first
    engine.add("a", prompt(6), max_tokens=6, beam_width=3, n=3)
    engine.run()
    assert found(engine, "a") == expected_beams(prompt(6), search(3, 6))


def test_beams_are_pruned_with_the_token_that_ended_them_and_the_best_gives_the_reason():
    engine = WatchedEngine()
    for i in range(6):
        engine.add(f"r{i}", prompt(5 + i, first=17 * i), max_tokens=9, beam_width=4, n=4)
    engine.run()
    outputs, fates, ends = {}, [], {}
    for event in engine.events:
        match event:
            case ev.RequestForked():
                outputs[event.seq_id] = outputs.get(event.parent, [])
            case ev.TokenSampled():
                outputs[event.seq_id] = [*outputs.get(event.seq_id, []), event.token_id]
            case ev.BeamPruned():
                complete = [*outputs[event.seq_id], EOS]
                was_found = complete in found(engine, event.seq_id.rpartition(".")[0])
                assert event.stop_reason == EOS or not was_found
                fates.append((event.stop_reason, was_found))
            case ev.BeamsFound() | ev.RequestFinished():
                ends.setdefault(event.seq_id.rpartition(".")[0], []).append(event)
    assert {(None, False), (EOS, True)} <= set(fates)
    assert {reason for reason, _ in fates} == {None, EOS}
    reasons = set()
    for name, (found_at, end) in ends.items():
        assert found_at.seq_id == end.seq_id and type(found_at) is ev.BeamsFound
        best = engine.outputs[name].outputs
        assert end.reason == best[0].finish_reason
        assert {beam.stop_reason for beam in best} == {None}, "end-of-sequence is no stop token"
        reasons |= {(beam.finish_reason, best[0].finish_reason) for beam in best}
    assert len(ends) == 6 and len(reasons) > 1, "some beams end differently from the best"


def test_forking_a_beam_recomputes_nothing():
    engine = WatchedEngine()
    engine.add("a", prompt(10), max_tokens=6, n=4, use_beam_search=True, ignore_eos=True)
    engine.run()
    # The prompt once, then one token per step for each of four beams. The last tokens are never
    # computed.
    assert engine.runner.num_tokens_run == 10 + 4 * 5


def test_a_finished_search_is_forgotten():
    def num_searches() -> int:
        gc.collect()
        return sum(type(thing) is BeamSearch for thing in gc.get_objects())

    engine, before = WatchedEngine(), num_searches()
    engine.add("a", prompt(6), max_tokens=5, n=3, use_beam_search=True)
    engine.step()
    assert num_searches() > before
    engine.run()
    assert num_searches() == before


def test_a_search_with_fewer_continuations_than_beams_keeps_its_slots():
    # All but two tokens are stop tokens, so one beam has at most two continuations and the other
    # slots stay reserved.
    engine = WatchedEngine(max_num_seqs=4)
    stops = list(range(2, 99))
    beams = {"n": 4, "use_beam_search": True, "stop_token_ids": stops, "early_stopping": "never"}
    engine.add("a", prompt(6), max_tokens=8, **beams)
    for i in range(3):
        engine.add(f"other {i}", prompt(5, first=40 + i), max_tokens=4)
    engine.run()
    ends = frozenset({EOS, *stops})
    search_ = BeamSearch(width=4, max_tokens=8, eos_token_ids=ends, early_stopping="never")
    assert found(engine, "a") == expected_beams(prompt(6), search_)


def test_dead_beams_leave_their_request():
    engine = WatchedEngine()
    engine.add("a", prompt(10), max_tokens=60, n=3, use_beam_search=True, ignore_eos=True)
    while engine.engine.has_unfinished_requests():
        engine.step()
        assert all(len(request.sequences) <= 3 for request in engine.scheduler.requests.values())
    assert engine.fold.counters.forked_sequences > 20
    assert engine.engine.core.output_processor._outputs == {}, "and their texts go with them"


def test_every_accepted_length_penalty_survives_a_long_search():
    for penalty in (-10.0, 10.0, 0.0):
        for early_stopping in (True, False, "never"):
            long_search = search(2, 10**6, length_penalty=penalty, early_stopping=early_stopping)
            long_search.scores = {"a": -5e6, "b": -6e6}
            outputs = {"a": [1] * 999_990, "b": [2] * 999_990}
            ways = [Candidate("a", EOS, -9.0), Candidate("b", 1, -9.5), Candidate("a", 3, -9.9)]
            long_search.advance(ways, outputs)
            assert long_search.hypotheses[0].score < 0.0 or penalty == 10.0


def test_a_search_is_refused_if_its_beams_could_not_all_be_in_memory_at_once():
    """Beams can become sequences with no block in common; samples keep their prompt's blocks."""
    engine = WatchedEngine(num_blocks=8)
    engine.add("samples", prompt(8), max_tokens=4, n=3)
    with pytest.raises(InvalidRequestError, match="up to 9 KV cache blocks"):
        engine.add("beams", prompt(8), max_tokens=4, n=3, use_beam_search=True)
