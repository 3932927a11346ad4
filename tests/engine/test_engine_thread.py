"""`EngineThread`: commands from any thread, and an answer for every caller."""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from queue import Queue

import pytest
from support.engine.engine_fakes import expected_output, fake_engine
from support.patience import FOREVER, SOON

from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.engine.engine import LLMEngine
from minivllm.engine.engine_thread import EngineThread, Mailbox
from minivllm.errors import DuplicateRequestError, EmptyPromptError, EngineDeadError
from minivllm.events import types as ev
from minivllm.runtime.step_result import Watch
from minivllm.sampling_params import RequestOutputKind, SamplingParams

PROMPT = list(range(10))
EXPECTED = expected_output(PROMPT, 8)


def add(thread: EngineThread, name: str, max_tokens: int = 8, **others: object) -> Future:
    """With its own `on_output`, if that is among `others`."""
    on_output = others.pop("on_output", None)
    params = SamplingParams(temperature=0, max_tokens=max_tokens, **others)
    return thread.add_request(name, {"prompt_token_ids": PROMPT}, params, on_output=on_output)


def token_ids(future: Future) -> list[int]:
    return future.result(SOON).outputs[0].token_ids


def asked(thread: EngineThread, question: Callable[[LLMEngine], object]) -> object:
    return thread.call(question).result(SOON)


def test_each_output_is_handed_over_and_the_last_one_is_the_result():
    seen = []
    with EngineThread(fake_engine(200)) as thread:
        kind = RequestOutputKind.DELTA
        last = add(thread, "a", output_kind=kind, on_output=seen.append).result(SOON)
    assert [output.outputs[0].token_ids for output in seen] == [[t] for t in EXPECTED]
    assert [output.finished for output in seen] == [False] * 7 + [True]
    assert seen[-1] is last


def test_a_refused_request_raises_for_its_caller_and_the_others_continue():
    with EngineThread(fake_engine(200)) as thread:
        thread.pause().result(SOON)  # so that the first request is not done before the second
        good = add(thread, "a", 40)
        empty = thread.add_request("b", {"prompt_token_ids": []}, SamplingParams())
        with pytest.raises(EmptyPromptError):
            empty.result(SOON)
        with pytest.raises(DuplicateRequestError):
            add(thread, "a").result(SOON)
        thread.resume()
        assert token_ids(good) == expected_output(PROMPT, 40)


def test_a_call_runs_in_the_engines_thread_and_its_error_is_the_callers():
    with EngineThread(fake_engine(200)) as thread:
        name = asked(thread, lambda engine: threading.current_thread().name)
        assert name == "minivllm-engine" != threading.current_thread().name
        with pytest.raises(ZeroDivisionError):
            asked(thread, lambda engine: 1 / 0)
        assert token_ids(add(thread, "a")) == EXPECTED


def test_a_step_pauses_an_engine_which_then_does_nothing_until_it_is_stepped_or_resumed():
    with EngineThread(fake_engine(200)) as thread:
        assert not thread.paused
        assert thread.step().result(SOON) == []
        assert thread.paused
        future = add(thread, "a")
        # Each answer comes in another iteration of the thread's loop, which could have been a step.
        assert [asked(thread, lambda engine: engine.inspect().step) for _ in range(5)] == [0] * 5
        for number in (1, 2, 3):
            (output,) = thread.step().result(SOON)
            assert len(output.outputs[0].token_ids) == number
        assert asked(thread, lambda engine: engine.inspect().step) == 3
        assert not future.done()
        thread.resume().result(SOON)
        assert token_ids(future) == EXPECTED


def test_a_command_that_exits_fails_only_its_own_future():
    mailbox = Mailbox(in_step=lambda: False)
    future = mailbox.post(sys.exit)
    mailbox.carry_out(0.0)
    assert isinstance(future.exception(0.0), SystemExit)


def test_a_mailbox_that_closes_in_the_middle_of_a_step_returns_the_waiting_commands():
    mailbox = Mailbox(in_step=lambda: True)
    held = mailbox.post(list, between_steps=True)
    mailbox.carry_out(0.0)
    queued = mailbox.post(list)
    assert mailbox.close() == [held, queued]


def test_when_the_engine_fails_every_waiting_caller_gets_the_error():
    engine = fake_engine(200)
    thread, in_step, go_on = EngineThread(engine), threading.Event(), threading.Event()

    def break_down(plan: SchedulerOutput, watch: Watch) -> None:
        in_step.set()
        go_on.wait(SOON)
        engine.core.runner.plain.device_lost = True
        raise RuntimeError("the model broke")

    thread.start()
    thread.pause().result(SOON)
    waiting = [add(thread, name, 50) for name in "ab"]
    engine.core.runner.plain.before = break_down
    waiting += [thread.step(), thread.step()]
    assert in_step.wait(SOON)
    # queued behind the failing step
    waiting += [add(thread, "c"), thread.call(lambda engine: None)]
    go_on.set()
    wait((thread.ended,), SOON)
    for future in waiting:
        with pytest.raises(EngineDeadError, match="the model broke") as caught:
            future.result(SOON)
        assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(RuntimeError, match="the model broke"):
        thread.join(SOON)
    for late in (add(thread, "d"), thread.step(), thread.call(lambda engine: None)):
        with pytest.raises(EngineDeadError, match="has ended"):
            late.result(SOON)


def test_stopping_aborts_what_is_unfinished_and_frees_its_blocks():
    engine, aborted = fake_engine(200), []
    engine.subscribe(
        lambda event: isinstance(event, ev.RequestAborted) and aborted.append(event.seq_id)
    )
    with EngineThread(engine, seconds_per_step=0.002) as thread:
        future = add(thread, "a", 700)
        params = SamplingParams(max_tokens=700)
        asked(thread, lambda engine: engine.add_request("of-a-script", "text", params))
    assert future.result(SOON).outputs[0].finish_reason == "abort"
    assert sorted(aborted) == ["a.0", "of-a-script.0"]
    assert not engine.has_unfinished_requests()
    assert len(engine.inspect().free_queue) == 200
    thread.stop()  # a second stop does no harm


def test_a_callback_that_raises_ends_its_own_request_only():
    engine = fake_engine(200)
    with EngineThread(engine) as thread:
        thread.pause().result(SOON)
        broken = add(thread, "broken", 700, on_output=lambda output: 1 / 0)
        other = add(thread, "other")
        thread.resume()
        with pytest.raises(ZeroDivisionError):
            broken.result(SOON)
        assert token_ids(other) == EXPECTED
        assert not asked(thread, LLMEngine.has_unfinished_requests)
        assert asked(thread, lambda engine: dict(thread._waiters)) == {}
    assert len(engine.inspect().free_queue) == 200


def test_a_request_cancelled_before_the_engine_has_it_is_never_added():
    with EngineThread(fake_engine(200)) as thread:
        held, release = threading.Event(), threading.Event()
        thread.call(lambda engine: (held.set(), release.wait(SOON)))
        assert held.wait(SOON)
        future = add(thread, "a")
        assert future.cancel()
        release.set()
        with pytest.raises(CancelledError):
            future.result(SOON)
        assert not asked(thread, LLMEngine.has_unfinished_requests)


def test_with_nothing_to_do_the_thread_sleeps_until_a_command_comes(monkeypatch):
    rests, carry_out = Queue(), Mailbox.carry_out
    monkeypatch.setattr(
        Mailbox, "carry_out", lambda box, seconds: (rests.put(seconds), carry_out(box, seconds))
    )
    with EngineThread(fake_engine(200)) as thread:
        assert token_ids(add(thread, "a")) == EXPECTED
        asked(thread, lambda engine: rests.queue.clear())
        assert rests.get(timeout=SOON) is None, "it sleeps without a timeout"


def test_commands_do_not_wait_for_the_pace_of_the_steps():
    with EngineThread(fake_engine(200), seconds_per_step=FOREVER) as thread:
        future = add(thread, "a", 5)
        asked(thread, lambda engine: None)
        assert not future.done()


def test_endless_calls_do_not_stop_the_engine_from_stepping():
    with EngineThread(fake_engine(200)) as thread:
        future = add(thread, "a", 20)

        def again(engine: LLMEngine) -> None:
            if not future.done():
                thread.call(again)

        thread.call(again)
        assert token_ids(future) == expected_output(PROMPT, 20)


@pytest.mark.parametrize("num_phases", [1, 2])
class TestInTheMiddleOfAStep:
    """The engine is paused after some phases of the first step of request `a`."""

    def begin(self, thread: EngineThread, num_phases: int) -> Future:
        thread.pause().result(SOON)
        future = add(thread, "a")
        for _ in range(num_phases):
            thread.step_phase().result(SOON)
        return future

    def test_resuming_continues_the_step_and_new_requests_were_queued_at_once(self, num_phases):
        asked_in = []
        script = lambda engine: asked_in.append(engine.next_phase)  # noqa: E731
        with EngineThread(fake_engine(200), before_step=script) as thread:
            first = self.begin(thread, num_phases)
            thread.pause().result(SOON)  # pausing again changes nothing
            assert thread.next_phase != "schedule"
            second = add(thread, "b")
            assert "b.0" in asked(thread, lambda engine: engine.inspect().waiting)
            thread.resume()
            assert token_ids(first) == token_ids(second) == EXPECTED
        assert set(asked_in) == {"schedule"}, "a script is called only between steps"

    def test_an_abort_waits_for_the_end_of_the_step(self, num_phases):
        with EngineThread(fake_engine(200)) as thread:
            future = self.begin(thread, num_phases)
            abort = thread.abort_request("a")
            assert "a" in asked(thread, lambda engine: engine.inspect().requests)
            assert not abort.done()
            thread.step().result(SOON)
            assert token_ids(abort) == token_ids(future) == EXPECTED[:1]
            assert future.result().outputs[0].finish_reason == "abort"
            assert len(asked(thread, lambda engine: engine.inspect().free_queue)) == 200

    def test_stopping_finishes_the_step_and_answers_every_caller(self, num_phases):
        engine = fake_engine(200)
        with EngineThread(engine) as thread:
            future = self.begin(thread, num_phases)
            abort_of_another = thread.abort_request("nobody")
        assert token_ids(future) == EXPECTED[:1], "the token of the step in progress"
        assert future.result().outputs[0].finish_reason == "abort"
        assert abort_of_another.result(SOON) is None
        assert len(engine.inspect().free_queue) == 200
