"""`token.explained`: which tokens are explained, when, and without effect on the tokens."""

from unittest.mock import Mock

import pytest
from support.engine.followed_run import FollowedRun

from minivllm.errors import InvalidRequestError
from minivllm.events import types as ev
from minivllm.events.recording.lines import decode_line, encode_event

BATCH = {
    "greedy": {"temperature": 0.0},
    "penalized": {"temperature": 0.0, "repetition_penalty": 1.4},
    "nucleus": {"temperature": 0.9, "top_p": 0.8, "top_k": 40, "min_p": 0.001},
    "several": {"temperature": 1.2, "n": 3},
    "seeded": {"temperature": 1.0, "seed": 4, "min_tokens": 3, "logprobs": 2},
    "beams": {"beam_width": 3, "n": 3},
}


def start(tiny, requests=BATCH, **options):
    run = FollowedRun(tiny, **options)
    for name, params in requests.items():
        run.add(name, [40, 50, 60, 70, 41], params)
    return run


def explained_by(run):
    """The explanations, without the candidates before each draw."""
    return [event for event in run.of(ev.TokenExplained) if event.token_id is not None]


def test_each_explanation_comes_just_before_its_token_and_changes_none(tiny):
    plain = start(tiny, listens=False).finish()
    explained = start(tiny, explain_tokens=True).finish()
    assert explained.outputs == plain.outputs
    known = explained.fold.token_pieces.keys()
    for event in explained_by(explained):
        assert decode_line(encode_event(event))[1][0] == event, "it survives a recording"
        assert {word.token_id for word in event.candidates} <= known, "each candidate has its text"
    beams = {event.seq_id for event in explained.of(ev.TokenSampled) if event.seq_id[:5] == "beams"}
    lengths = {}
    pending = {}
    for event in explained.events:
        if isinstance(event, ev.TokenExplained) and event.token_id is not None and not event.beams:
            pending[event.seq_id] = event
        elif isinstance(event, ev.TokenSampled) and event.seq_id not in beams:
            why = pending.pop(event.seq_id)
            lengths[event.seq_id] = lengths.get(event.seq_id, 0) + 1
            assert (why.token_id, why.step) == (event.token_id, event.step)
            assert why.position == 5 + lengths[event.seq_id] - 1
            assert why.chosen.token_id == event.token_id
    assert pending == {} and set(lengths.values()) == {6} and len(lengths) == 7


def test_only_the_watched_sequence_is_explained_and_only_while_it_is_watched(tiny):
    run = start(tiny)
    run.step()
    run.engine.explain_tokens("several.1")
    run.engine.explain_tokens("several.1")  # a repeated call changes nothing
    run.step()
    run.step()
    run.engine.explain_tokens("several.1", on=False)
    run.finish()
    found = explained_by(run)
    assert [(event.seq_id, event.step, event.position) for event in found] == [
        ("several.1", 2, 6), ("several.1", 3, 7)
    ]  # fmt: skip


def test_a_sample_that_has_ended_cannot_be_watched_while_its_sibling_runs(tiny):
    run = start(tiny, {"a": {"n": 2, "temperature": 1.5, "seed": 3}})
    run.finish()
    first, second = run.outputs["a"]
    assert first[1] not in second
    run = start(tiny, {"a": {"n": 2, "temperature": 1.5, "seed": 3, "stop_token_ids": [first[1]]}})
    for _ in range(3):
        run.step()
    run.engine.explain_tokens("a.1")
    for seq_id in ("a.0", "nobody.0", "a.7", ""):
        with pytest.raises(InvalidRequestError, match="no unfinished sequence"):
            run.engine.explain_tokens(seq_id)


def test_a_watch_ends_with_its_sequence(tiny):
    run = start(tiny, {"a": {"max_tokens": 2}, "b": {"max_tokens": 6}})
    run.engine.explain_tokens("a.0")
    explainer = run.engine.core.watchers.explainer
    run.step()
    assert explainer.active
    for _ in range(3):
        run.step()
    assert not explainer.active


def test_nothing_is_explained_without_a_listener_or_a_watch(tiny, monkeypatch):
    explain = Mock()
    monkeypatch.setattr("minivllm.runtime.sampling.sampler.explain", explain)
    start(tiny).finish()
    start(tiny, listens=False, explain_tokens=True).finish()
    assert explain.call_count == 0


def test_a_beam_search_reports_the_beams_that_go_on_and_those_that_die(tiny):
    run = start(tiny, {"b": {"beam_width": 3, "n": 3}})
    run.step()
    run.engine.explain_tokens("b.0")
    run.finish()
    found = explained_by(run)
    assert [event.step for event in found] == [2, 3, 4, 5, 6]
    for event in found[:-1]:
        scores = [beam.score for beam in event.beams]
        assert scores == sorted(scores, reverse=True)
        going_on = [beam for beam in event.beams if beam.fate == "continues"]
        assert len(going_on) == 3 and event.beams[0] == going_on[0]
        assert {beam.fate for beam in event.beams} == {"continues", "dropped"}
        gained = {
            (sampled.token_id, round(sampled.logprob, 9))
            for sampled in run.of(ev.TokenSampled)
            if sampled.step == event.step
        }
        assert gained == {(beam.token_id, round(beam.score, 9)) for beam in going_on}
        pruned = {pruning.seq_id for pruning in run.of(ev.BeamPruned) if pruning.step == event.step}
        assert pruned.isdisjoint(beam.seq_id for beam in going_on)
    (texts,) = run.of(ev.BeamsFound)
    ended = [beam.score for beam in found[-1].beams if beam.fate == "ends"]
    assert ended == pytest.approx(sorted(texts.logprobs, reverse=True))


def test_a_step_that_runs_in_pieces_shows_its_candidates_before_the_draw_too(tiny, monkeypatch):
    run = start(tiny, {"bad": {}, "good": {"temperature": 0.0}})
    run.engine.explain_tokens("good.0")
    runner = run.engine.core.runner.plain
    execute_model = runner.execute_model

    def fail(plan, watch):
        if any(item.sequence.seq_id == "bad.0" for item in plan.scheduled):
            raise RuntimeError
        return execute_model(plan, watch)

    monkeypatch.setattr(runner, "execute_model", fail)
    run.step()
    before, after = run.of(ev.TokenExplained)
    assert (before.seq_id, before.token_id) == ("good.0", None)
    assert {one.token_id for one in before.candidates} >= {after.token_id}


def test_phase_by_phase_the_candidates_are_known_before_the_draw_but_not_the_winner(tiny):
    phases = start(tiny, explain_tokens=True).finish()
    found = {}
    for event in phases.of(ev.TokenExplained):
        if event.token_id is None:
            found[event.seq_id, event.position] = event
        elif event.candidates:
            before = found.pop((event.seq_id, event.position))
            assert before.chosen is None and before.step == event.step
            assert (before.num_left, before.cuts) == (event.num_left, event.cuts)
            assert all(candidate.draw is None for candidate in before.candidates)
            after = {candidate.token_id: candidate for candidate in event.candidates}
            for candidate in before.candidates:
                assert candidate.final_probability == after[candidate.token_id].final_probability
            # Only the winner and the second are added by the draw.
            assert len(after) - len(before.candidates) <= 2
    assert found == {}


def test_whole_steps_and_the_rest_of_one_have_no_event_before_the_draw(tiny):
    run = start(tiny, explain_tokens=True)
    while run.engine.has_unfinished_requests():
        run.engine.step()
        run.engine.step_phase()
        run.engine.step()
    assert all(event.token_id is not None for event in run.of(ev.TokenExplained))
