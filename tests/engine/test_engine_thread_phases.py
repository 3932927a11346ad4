"""`EngineThread` in the middle of a step: phases one by one, and what waits for the step's end."""

from concurrent.futures import Future

import pytest
from support.engine.engine_fakes import FakeRunner, FakeTokenizer, expected_output
from support.patience import SOON

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.engine.engine_thread import EngineThread
from minivllm.events.fold import Fold
from minivllm.sampling_params import SamplingParams

PROMPT = list(range(10))


def make_engine() -> LLMEngine:
    config = EngineConfig(
        model="fake", block_size=4, max_num_seqs=8, max_num_batched_tokens=64, check_invariants=True
    )
    return LLMEngine(config, FakeRunner(200, 4), FakeTokenizer(), clock=VirtualClock())


def add(thread: EngineThread, name: str, max_tokens: int = 8) -> Future:
    return thread.add_request(
        name, {"prompt_token_ids": PROMPT}, SamplingParams(temperature=0, max_tokens=max_tokens)
    )


def token_ids(future: Future) -> list[int]:
    return future.result(SOON).outputs[0].token_ids


def phases(thread: EngineThread, number: int) -> list[str]:
    return [thread.step_phase().result(SOON) for _ in range(number)]


def paused_after(
    thread: EngineThread, num_phases: int, name: str = "a", max_tokens: int = 8
) -> Future:
    """One request, and the engine standing after so many phases."""
    thread.pause().result(SOON)
    future = add(thread, name, max_tokens)
    phases(thread, num_phases)
    return future


def test_three_phases_are_a_step_and_state_and_fold_agree_after_each():
    engine = make_engine()
    fold = Fold(engine.log_header())
    engine.subscribe(fold.apply)
    with EngineThread(engine) as thread:
        thread.pause().result(SOON)
        future = add(thread, "a")
        for expected in ["execute", "sample", "schedule"] * 2:
            assert thread.step_phase().result(SOON) == expected == thread.next_phase
            assert thread.paused
            assert thread.call(lambda engine: engine.inspect() == fold.state).result(SOON)
        assert len(fold.sequences["a.0"].output_token_ids) == 2
        thread.resume()
        assert token_ids(future) == expected_output(PROMPT, 8)


@pytest.mark.parametrize("num_phases", [1, 2])
def test_a_step_finishes_the_one_that_is_under_way(num_phases):
    with EngineThread(make_engine()) as thread:
        paused_after(thread, num_phases)
        (output,) = thread.step().result(SOON)
        assert len(output.outputs[0].token_ids) == 1
        assert thread.call(lambda engine: engine.inspect().step).result(SOON) == 1
        assert thread.next_phase == "schedule"


@pytest.mark.parametrize("num_phases", [1, 2])
def test_resuming_in_the_middle_of_a_step_goes_on_from_there(num_phases):
    before_steps = []
    engine = make_engine()
    with EngineThread(
        engine, before_step=lambda engine: before_steps.append(engine.next_phase)
    ) as thread:
        future = paused_after(thread, num_phases)
        thread.pause().result(SOON)  # once more, in the middle of a phase, changes nothing
        assert thread.next_phase != "schedule"
        thread.resume()
        assert token_ids(future) == expected_output(PROMPT, 8)
    assert set(before_steps) == {"schedule"}, "a script is asked between steps alone"


@pytest.mark.parametrize("num_phases", [1, 2])
def test_a_request_that_comes_in_the_middle_of_a_step_is_queued_at_once(num_phases):
    with EngineThread(make_engine()) as thread:
        first = paused_after(thread, num_phases)
        second = add(thread, "b")
        assert "b.0" in thread.call(lambda engine: engine.inspect().waiting).result(SOON)
        thread.resume()
        for future in (first, second):
            assert token_ids(future) == expected_output(PROMPT, 8)


@pytest.mark.parametrize("num_phases", [1, 2])
def test_an_abort_in_the_middle_of_a_step_waits_for_its_end(num_phases):
    with EngineThread(make_engine()) as thread:
        future = paused_after(thread, num_phases)
        abort = thread.abort_request("a")
        assert "a" in thread.call(lambda engine: engine.inspect().requests).result(SOON)
        assert not abort.done()
        thread.step().result(SOON)
        assert token_ids(abort) == token_ids(future) == expected_output(PROMPT, 1)
        assert future.result().outputs[0].finish_reason == "abort"
        assert len(thread.call(lambda engine: engine.inspect().free_queue).result(SOON)) == 200


@pytest.mark.parametrize("num_phases", [1, 2])
def test_stopping_in_the_middle_of_a_step_finishes_it_and_answers_everybody(num_phases):
    engine = make_engine()
    thread = EngineThread(engine)
    thread.start()
    future = paused_after(thread, num_phases)
    abort_of_another = thread.abort_request("nobody")
    thread.stop()
    thread.join(SOON)
    assert token_ids(future) == expected_output(PROMPT, 1), (
        "the token of the step that was under way"
    )
    assert future.result().outputs[0].finish_reason == "abort"
    assert abort_of_another.result(SOON) is None
    assert not engine.has_unfinished_requests()
    assert len(engine.inspect().free_queue) == 200
