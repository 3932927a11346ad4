"""`EngineThreadControl`: each key of the dashboard on a real thread, and each refusal."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.engine.engine_fakes import next_token
from support.patience import SOON
from support.server.live_server import fake_engine, wait_for

from minivllm.cli.serving.engine_control import MAX_TOKENS, EngineThreadControl, StopClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.engine.engine_thread import EngineThread
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.tui.control import EngineControl


class Watched:
    """A control, the events of its engine, and methods that wait for it."""

    def __init__(self, engine: LLMEngine, clock: StopClock | None = None) -> None:
        self.events: list[ev.Event] = []
        self.fold = Fold(engine.log_header())
        engine.subscribe(self.events.append)
        engine.subscribe(self.fold.apply)
        self.thread = EngineThread(engine)
        self.control: EngineControl = EngineThreadControl(self.thread, clock)

    def settle(self) -> None:
        """Wait until the engine has received all earlier calls and done its single steps."""
        self.thread.call(lambda engine: None).result(SOON)
        wait_for(lambda: not self.thread._singles)

    def now(self) -> float:
        return self.thread.call(lambda engine: engine.core.clock.now()).result(SOON)

    def of(self, kind: type[ev.Event]) -> list[ev.Event]:
        return [event for event in list(self.events) if isinstance(event, kind)]


@contextmanager
def controlled(engine: LLMEngine, clock: StopClock | None = None) -> Iterator[Watched]:
    watched = Watched(engine, clock)
    with watched.thread:
        yield watched


def test_a_readers_pause_takes_no_time_of_the_requests():
    clock = StopClock()
    with controlled(fake_engine(clock=clock), clock) as watched:
        control = watched.control
        for pauses in (control.pause, control.step_phase, control.step):
            control.add_request("Hi")
            pauses()
            watched.settle()
            paused = watched.now()
            assert paused == watched.now()
        control.resume()
        watched.settle()
        wait_for(lambda: watched.now() > paused)
        wait_for(lambda: watched.of(ev.RequestFinished))
        times = [event.t for event in watched.events]
        assert times == sorted(times)


def test_requests_are_numbered_greedy_and_refused_ones_take_no_number():
    with controlled(fake_engine()) as watched:
        for prompt in ("Hi", " \n", "You there"):
            watched.control.add_request(prompt)
        wait_for(lambda: len(watched.of(ev.RequestFinished)) == 2)
        arrived = watched.of(ev.RequestArrived)
        assert [(event.request_id, event.prompt) for event in arrived] == [
            ("user-1", "Hi"), ("user-2", "You there")
        ]  # fmt: skip
        assert {event.max_tokens for event in arrived} == {MAX_TOKENS}
        first = next(event for event in watched.of(ev.TokenSampled) if event.seq_id == "user-1.0")
        assert first.token_id == next_token(arrived[0].prompt_token_ids)
        (message,) = watched.control.messages()
        assert "type a message" in message
        assert watched.control.messages() == []


def test_an_abort_in_the_middle_of_a_step_is_announced_and_done_at_its_end():
    with controlled(fake_engine()) as watched:
        control = watched.control
        control.pause()
        control.add_request("Hi")
        control.step_phase()
        wait_for(lambda: control.state().next_phase == "execute")
        control.abort("user-1")
        control.set_option("max_num_seqs", 2)
        assert control.messages() == [
            "Request user-1 will be aborted when the current step has ended.",
            "max_num_seqs will change when the current step has ended.",
        ]
        watched.settle()
        assert not watched.of(ev.RequestAborted)
        control.step()
        wait_for(lambda: watched.of(ev.RequestAborted) and watched.of(ev.OptionChanged))
        assert watched.fold.max_num_seqs == 2
        control.abort("user-1")
        wait_for(lambda: control._messages)
        assert control.messages() == ["There is no unfinished request user-1 to abort."]


def test_a_refusal_of_the_engine_arrives_as_one_sentence():
    with controlled(fake_engine()) as watched:
        control = watched.control
        for press, sentence in (
            (lambda: control.set_option("max_num_seqs", 0), "whole number, at least 1"),
            (lambda: control.set_option("seed", 3), "cannot be changed while the engine runs"),
            (lambda: control.trace_kernel("nobody.0"), "no unfinished sequence 'nobody'"),
            (lambda: control.explain_tokens("nobody.0", True), "no unfinished sequence"),
        ):
            press()
            wait_for(lambda: control._messages)
            (message,) = control.messages()
            assert sentence in message and "\n" not in message
        assert watched.events == []


def test_no_call_waits_for_the_engine():
    held, release = threading.Event(), threading.Event()
    with controlled(fake_engine()) as watched:
        watched.thread.call(lambda engine: (held.set(), release.wait(SOON)))
        assert held.wait(SOON)
        control = watched.control
        control.pause(), control.step(), control.step_phase(), control.resume()
        control.add_request("Hi"), control.add_burst(), control.abort("user-1")
        control.set_option("max_num_seqs", 1), control.record_attention_mass(True)
        control.trace_kernel("user-1.0"), control.explain_tokens("user-1.0", True)
        control.state(), control.messages()
        assert watched.events == []
        release.set()  # only now: no call waited for it


# ---- a real, tiny chat model ----


def test_a_chat_model_gets_its_template_and_records_attention_on_request():
    config = EngineConfig(
        model="tiny-random", dtype="float32", num_gpu_blocks_override=64, max_model_len=512
    )
    engine = LLMEngine.from_config(config)
    with controlled(engine) as watched:
        control = watched.control
        control.pause()
        control.record_attention_mass(True, "user-1.0", 1, 0)
        control.add_request("Hello")
        watched.settle()
        (arrived,) = watched.of(ev.RequestArrived)
        expected = engine.tokenizer.apply_chat_template([{"role": "user", "content": "Hello"}])
        assert arrived.prompt_token_ids == expected != engine.tokenizer.encode("Hello")
        control.step()
        wait_for(lambda: watched.of(ev.StepEnd))
        (words,) = watched.of(ev.TokenAttention)
        assert len(words.weights) == len(expected)
        assert sum(words.weights) == pytest.approx(1, abs=1e-4)
        assert control.messages() == []
