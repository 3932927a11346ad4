"""`EngineThread`: commands from any thread, and an answer for everybody, however it ends."""

import threading
import time
from concurrent.futures import CancelledError, Future, wait

import pytest
from support.engine.engine_fakes import FakeRunner, FakeTokenizer, expected_output
from support.patience import SOON

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.engine.engine_thread import EngineThread
from minivllm.errors import DuplicateRequestError, EmptyPromptError, EngineDeadError
from minivllm.events import types as ev
from minivllm.sampling_params import RequestOutputKind, SamplingParams

PROMPT = {"prompt_token_ids": list(range(10))}


class ModelBrokeError(Exception):
    """What the failing model raises."""


class BreakableRunner(FakeRunner):
    """Once `broken` is set it fails in its next step, but only when it is told to `go_on`."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.broken = False
        self.in_step, self.go_on = threading.Event(), threading.Event()

    def execute_model(self, plan, watch):
        if self.broken:
            self.in_step.set()
            self.go_on.wait(SOON)
            self.device_lost = True
            raise ModelBrokeError("the model broke")
        return super().execute_model(plan, watch)

    def break_down(self) -> None:
        self.broken = True
        self.go_on.set()


def make_engine(runner_class: type[FakeRunner] = FakeRunner, num_blocks: int = 200) -> LLMEngine:
    config = EngineConfig(
        model="fake", block_size=4, max_num_seqs=8, max_num_batched_tokens=64, check_invariants=True
    )
    return LLMEngine(config, runner_class(num_blocks, 4), FakeTokenizer(), clock=VirtualClock())


def params(max_tokens: int = 8, **others: object) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=max_tokens, **others)


def token_ids(future: Future) -> list[int]:
    return future.result(SOON).outputs[0].token_ids


def test_each_output_is_handed_over_and_the_last_one_is_the_result():
    seen = []
    with EngineThread(make_engine()) as thread:
        delta = params(output_kind=RequestOutputKind.DELTA)
        last = thread.add_request("a", PROMPT, delta, on_output=seen.append).result(SOON)
    assert [len(output.outputs[0].token_ids) for output in seen] == [1] * 8
    assert [token for output in seen for token in output.outputs[0].token_ids] == expected_output(
        list(range(10)), 8
    )
    assert [output.finished for output in seen] == [False] * 7 + [True]
    assert seen[-1] is last


def test_a_refused_request_is_told_its_caller_and_the_others_go_on():
    with EngineThread(make_engine()) as thread:
        good = thread.add_request("a", PROMPT, params(40))
        empty = thread.add_request("b", {"prompt_token_ids": []}, params())
        again = thread.add_request("a", PROMPT, params())
        with pytest.raises(EmptyPromptError):
            empty.result(SOON)
        with pytest.raises(DuplicateRequestError):
            again.result(SOON)
        assert token_ids(good) == expected_output(list(range(10)), 40)


def test_an_aborted_request_ends_with_what_it_has_so_far():
    with EngineThread(make_engine(), seconds_per_step=0.002) as thread:
        three = threading.Event()
        future = thread.add_request(
            "a",
            PROMPT,
            params(700),
            on_output=lambda output: len(output.outputs[0].token_ids) >= 3 and three.set(),
        )
        assert three.wait(SOON)
        output = thread.abort_request("a").result(SOON)
        assert future.result(SOON) is output
        assert output.finished
        assert output.outputs[0].finish_reason == "abort"
        assert 3 <= len(output.outputs[0].token_ids) < 700
        assert thread.abort_request("a").result(SOON) is None


def test_a_call_runs_in_the_engines_thread_and_its_error_is_the_callers():
    with EngineThread(make_engine()) as thread:
        name = thread.call(lambda engine: threading.current_thread().name).result(SOON)
        assert name == "minivllm-engine" != threading.current_thread().name
        with pytest.raises(ZeroDivisionError):
            thread.call(lambda engine: 1 / 0).result(SOON)
        assert token_ids(thread.add_request("a", PROMPT, params(3))) == expected_output(
            list(range(10)), 3
        )


def test_a_paused_engine_stands_still_until_it_is_stepped_or_resumed():
    with EngineThread(make_engine()) as thread:
        thread.pause().result(SOON)
        future = thread.add_request("a", PROMPT, params())
        steps = [thread.call(lambda engine: engine.inspect().step) for _ in range(2)]
        time.sleep(0.05)
        steps.append(thread.call(lambda engine: engine.inspect().step))
        assert [step.result(SOON) for step in steps] == [0, 0, 0]
        for number in (1, 2, 3):
            (output,) = thread.step().result(SOON)
            assert len(output.outputs[0].token_ids) == number
        assert thread.call(lambda engine: engine.inspect().step).result(SOON) == 3
        assert not future.done()
        thread.resume().result(SOON)
        assert token_ids(future) == expected_output(list(range(10)), 8)


def test_when_the_engine_fails_everybody_who_waits_hears_of_it():
    engine = make_engine(BreakableRunner)
    thread = EngineThread(engine)
    thread.start()
    thread.pause().result(SOON)
    waiting = [thread.add_request(name, PROMPT, params(50)) for name in "ab"]
    engine._stepper.runner.broken = True
    waiting += [thread.step(), thread.step()]
    assert engine._stepper.runner.in_step.wait(SOON)
    # behind the failing step
    waiting += [thread.add_request("c", PROMPT, params()), thread.call(lambda engine: None)]
    engine._stepper.runner.go_on.set()
    wait((thread.ended,), SOON)
    for future in waiting:
        with pytest.raises(EngineDeadError, match="the model broke") as caught:
            future.result(SOON)
        assert isinstance(caught.value.__cause__, ModelBrokeError)
    with pytest.raises(ModelBrokeError):
        thread.join(SOON)
    for late in (
        thread.add_request("d", PROMPT, params()),
        thread.step(),
        thread.call(lambda engine: None),
    ):
        with pytest.raises(EngineDeadError, match="has ended"):
            late.result(SOON)


def test_leaving_the_context_raises_what_ended_the_engine():
    with pytest.raises(ModelBrokeError), EngineThread(make_engine(BreakableRunner)) as thread:
        thread.call(lambda engine: engine._stepper.runner.break_down()).result(SOON)
        wait((thread.add_request("a", PROMPT, params()),), SOON)


def test_stopping_aborts_what_is_unfinished_and_frees_its_blocks():
    engine = make_engine()
    aborted = []
    engine.subscribe(
        lambda event: isinstance(event, ev.RequestAborted) and aborted.append(event.seq_id)
    )
    thread = EngineThread(engine, seconds_per_step=0.002)
    thread.start()
    future = thread.add_request("a", PROMPT, params(700))
    thread.call(lambda engine: engine.add_request("of-a-script", PROMPT, params(700))).result(SOON)
    thread.stop()
    thread.join(SOON)
    assert future.result(SOON).outputs[0].finish_reason == "abort"
    assert sorted(aborted) == ["a.0", "of-a-script.0"]
    assert not engine.has_unfinished_requests()
    assert len(engine.inspect().free_queue) == 200
    thread.stop()  # once more does no harm


def test_a_callback_that_raises_ends_its_own_request_only():
    def bad(output: object) -> None:
        raise ZeroDivisionError

    engine = make_engine()
    with EngineThread(engine) as thread:
        thread.pause().result(SOON)
        broken = thread.add_request("broken", PROMPT, params(700), on_output=bad)
        other = thread.add_request("other", PROMPT, params())
        thread.resume()
        with pytest.raises(ZeroDivisionError):
            broken.result(SOON)
        assert token_ids(other) == expected_output(list(range(10)), 8)
        assert not thread.call(lambda engine: engine.has_unfinished_requests()).result(SOON)
    assert len(engine.inspect().free_queue) == 200


def test_a_request_cancelled_before_the_engine_has_it_is_never_added():
    with EngineThread(make_engine()) as thread:
        held, release = threading.Event(), threading.Event()
        thread.call(lambda engine: (held.set(), release.wait(SOON)))
        assert held.wait(SOON)
        future = thread.add_request("a", PROMPT, params())
        assert future.cancel()
        release.set()
        with pytest.raises(CancelledError):
            future.result(SOON)
        assert not thread.call(lambda engine: engine.has_unfinished_requests()).result(SOON)


def test_with_nothing_to_do_the_thread_sleeps():
    calls = []
    with EngineThread(make_engine(), before_step=lambda engine: calls.append(1)) as thread:
        token_ids(thread.add_request("a", PROMPT, params()))
        thread.call(lambda engine: None).result(SOON)
        before = len(calls)
        time.sleep(0.2)
        assert len(calls) <= before + 1, "it may have been on its way back to sleep"


def test_steps_begin_no_faster_than_the_pace_and_commands_do_not_wait_for_it():
    began = time.monotonic()
    with EngineThread(make_engine(), seconds_per_step=0.05) as thread:
        token_ids(thread.add_request("a", PROMPT, params(5)))
        assert time.monotonic() - began >= 4 * 0.05
    with EngineThread(make_engine(), seconds_per_step=3600) as thread:
        future = thread.add_request("a", PROMPT, params(5))
        thread.call(lambda engine: None).result(SOON)
        assert not future.done()


def test_callers_without_end_do_not_keep_the_engine_from_its_steps():
    with EngineThread(make_engine()) as thread:
        future = thread.add_request("a", PROMPT, params(20))

        def again(engine: LLMEngine) -> None:
            if not future.done():
                thread.call(again)

        thread.call(again)
        assert token_ids(future) == expected_output(list(range(10)), 20)
