"""A step in phases: the same step, consistent after each phase, safe in between."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from support.engine.engine_fakes import WatchedEngine, expected_output, fake_engine

from minivllm.engine import watchers
from minivllm.errors import EngineDeadError, StepInProgressError
from minivllm.events import types as ev
from minivllm.outputs import SampledToken
from minivllm.runtime.attention import xray
from minivllm.runtime.step_result import StepResult
from minivllm.sampling_params import SamplingParams


def pressed_engine() -> WatchedEngine:
    """A small pool with sharing, samples, beams and preemptions."""
    engine = WatchedEngine(num_blocks=14)
    for i in range(4):
        engine.add(f"r{i}", [*range(6), 40 + i], max_tokens=12)
    engine.add("samples", [*range(6), 1], max_tokens=6, n=2)
    engine.add("beams", [*range(5)], max_tokens=6, beam_width=2)
    return engine


def test_a_run_in_phases_emits_the_same_events_as_a_run_in_steps():
    in_steps, in_phases = pressed_engine(), pressed_engine()
    in_steps.run()
    while in_phases.engine.has_unfinished_requests():
        in_phases.step_phase()  # compares fold and engine
    assert in_phases.events == in_steps.events
    assert in_phases.outputs == in_steps.outputs
    assert in_steps.fold.counters.num_preemptions and in_steps.fold.counters.forked_sequences


def test_each_phase_does_its_own_part_and_a_step_finishes_a_started_one():
    engine = WatchedEngine()
    assert engine.step_phase() == [] and engine.events == [], "without work nothing happens"
    engine.add("a", [1, 2, 3])
    kinds, outputs = [], []
    for _ in range(3):
        num_before = len(engine.events)
        outputs.append(engine.step_phase())
        kinds.append({type(event) for event in engine.events[num_before:]})
    assert {ev.StepBegin, ev.RequestAdmitted, ev.StepScheduled} < kinds[0]
    assert kinds[1:] == [set(), {ev.TokensNamed, ev.TokenSampled, ev.StepEnd}]
    assert outputs[:2] == [None, None]
    assert [len(output.outputs[0].token_ids) for output in outputs[2]] == [1]
    engine.step_phase()
    assert engine.engine.next_phase == "execute"
    assert [len(output.outputs[0].token_ids) for output in engine.step()] == [2]
    assert engine.engine.next_phase == "schedule"


def test_a_step_in_which_all_wait_for_the_batch_delay_ends_after_its_first_phase():
    engine = WatchedEngine(batch_delay=0.05, batch_size=4)
    engine.add("a", [1, 2, 3])
    assert engine.step_phase() == []
    assert engine.engine.next_phase == "schedule"
    assert type(engine.events[-1]) is ev.StepEnd
    engine.run()
    assert engine.token_ids("a") == expected_output([1, 2, 3], 8)


@pytest.mark.parametrize("num_phases", [1, 2])
def test_calls_that_would_free_planned_blocks_are_refused_during_a_step(num_phases):
    engine = WatchedEngine()
    engine.add("a", [1, 2, 3])
    for _ in range(num_phases):
        engine.step_phase()
    state = engine.engine.inspect()
    ours = engine.engine
    for wish in (lambda: ours.abort_request("a"), lambda: ours.set_option("max_num_seqs", 2)):
        with pytest.raises(StepInProgressError, match="finish the step, then"):
            wish()
        assert engine.engine.inspect() == state
    assert engine.engine.abort_request("nobody") is None
    engine.step()
    assert engine.engine.abort_request("a").finished
    engine.compare()


@pytest.mark.parametrize(
    ("failing", "error"),
    [("before", RuntimeError), ("sample_tokens", RuntimeError), ("before", KeyboardInterrupt)],
)
def test_a_phase_that_fails_or_is_interrupted_leaves_a_dead_engine(failing, error):
    engine = WatchedEngine()
    engine.add("a", [1, 2, 3])
    setattr(engine.runner, failing, Mock(side_effect=error("a bug")))
    engine.runner.device_lost = error is RuntimeError
    with pytest.raises(error):
        for _ in range(3):
            engine.engine.step_phase()
    add = lambda: engine.engine.add_request("b", "x", SamplingParams())  # noqa: E731
    for call in (engine.engine.step_phase, engine.engine.step, add):
        with pytest.raises(EngineDeadError, match=f"{error.__name__}.*create a new LLMEngine"):
            call()
    # Cleaning up does not raise a second time.
    assert engine.engine.abort_request("a") is None


@pytest.mark.parametrize("ends_by", ["its last token", "an abort"])
def test_a_trace_of_a_sequence_that_ends_before_its_decode_is_answered_at_once(ends_by):
    engine = WatchedEngine()
    engine.add("a", [1, 2, 3], max_tokens=1)
    engine.engine.trace_kernel("a.0")
    if ends_by == "an abort":
        engine.engine.abort_request("a")
    else:
        engine.step()
    (traced,) = engine.events_of(ev.KernelTraced)
    assert traced.problem == "a.0 ended before its next decode step."


def test_only_the_next_decode_is_traced_and_only_once(monkeypatch):
    monkeypatch.setattr(watchers, "find_spec", lambda name: name)
    monkeypatch.setattr(xray, "trace_decode", lambda sample: [])
    engine, watches, sample = WatchedEngine(), [], SimpleNamespace(layer=0, num_tokens=4)
    engine.runner.before = lambda plan, watch: watches.append(
        (plan.scheduled[0].kind, watch.decodes)
    )
    engine.runner.after = lambda plan, watch: StepResult(
        plan, None, decode_samples=[sample for _ in watch.decodes]
    )
    engine.add("a", [1, 2, 3])
    for _ in range(2):  # a repeated call changes nothing
        engine.engine.trace_kernel("a.0")
    for _ in range(3):
        engine.step()
    assert watches == [("prefill", ()), ("decode", (0,)), ("decode", ())]
    assert len(engine.events_of(ev.KernelTraced)) == 1


def test_attention_mass_is_measured_only_while_somebody_listens():
    measures, engine = [], fake_engine()
    runner = engine.core.runner.plain
    runner.before = lambda plan, watch: measures.append(watch.attention_mass)
    runner.after = lambda plan, watch: StepResult(
        plan, None, attention_mass=[[1.0]] * watch.attention_mass
    )
    engine.record_attention_mass(True)
    engine.add_request("a", {"prompt_token_ids": [1, 2, 3]}, SamplingParams(max_tokens=3))
    engine.step()
    unsubscribe = engine.subscribe(lambda event: None)
    engine.step()
    unsubscribe()
    engine.step()
    assert measures == [False, True, False]


def test_time_between_two_phases_is_not_counted():
    engine = WatchedEngine()
    clock = engine.engine.core.clock = SimpleNamespace(name="virtual", num_steps=0, time=0.0)
    clock.now = engine.engine.core.bus.now = lambda: clock.time

    def take(seconds: float, result: object) -> object:
        clock.time += seconds
        return result

    engine.add("a", [1, 2, 3])
    engine.runner.after = lambda plan, _: take(3.0, StepResult(plan, None, 1.0))
    engine.runner.draw = lambda _: take(0.5, SampledToken(7))
    for _ in range(3):
        clock.time += 100.0
        engine.step_phase()
    (end,) = engine.events_of(ev.StepEnd)
    assert (end.t_schedule, end.t_prepare, end.t_model, end.t_sample) == (0.0, 1.0, 2.0, 0.5)
