"""`EngineThreadControl`: the dashboard's keys for an engine in a thread of this process.

Each key becomes a command of `EngineThread`, and a result that the user should see becomes a
message. The caller draws ten frames a second, so no method here waits for a future; a callback
in the engine's thread appends messages to a deque.
"""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

from minivllm.clock import MonotonicClock
from minivllm.engine.engine import LLMEngine
from minivllm.engine.engine_thread import EngineThread
from minivllm.engine.requests import TokensPrompt
from minivllm.errors import EmptyPromptError, EngineDeadError, MinivllmError
from minivllm.lessons.scenarios.house import HOUSE_MODEL, for_the_house_model
from minivllm.lessons.scenarios.scenario import Message
from minivllm.lessons.scenarios.scenarios import SHARED_PREFIX
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import SamplingParams
from minivllm.tui.control import ASKED_HERE, BURST, MAX_TOKENS, ControlState

_BURST_SIZE = 4


class StopClock(MonotonicClock):
    """Real time without the pauses of a reader. Only the engine's thread uses it."""

    _lost = 0.0
    _stopped_at: float | None = None

    def now(self) -> float:
        return (self._stopped_at or time.monotonic()) - self._lost

    def stop(self, _: object = None) -> None:
        self._stopped_at = self._stopped_at or time.monotonic()

    def go_on(self, _: object = None) -> None:
        self._lost = time.monotonic() - self.now()
        self._stopped_at = None


class EngineThreadControl:
    """Implements `minivllm.tui.control.EngineControl` for one `EngineThread`.

    The thread may be started later. With the engine's `clock`, it pauses with the picture.
    """

    def __init__(self, thread: EngineThread, clock: StopClock | None = None) -> None:
        self._thread, self._clock = thread, clock or StopClock()
        self.pauses_with_picture = clock is not None
        # `append` and `popleft` are atomic.
        self._messages: deque[str] = deque()
        self._num_added = 0  # only the engine's thread uses it
        thread.ended.add_done_callback(self._tell_end)

    def state(self) -> ControlState:
        return ControlState(self._thread.paused, self._thread.next_phase)

    def pause(self) -> None:
        self._watch(self._thread.pause(), stops=True)

    def resume(self) -> None:
        self._call(self._clock.go_on)
        self._watch(self._thread.resume())

    def step(self) -> None:
        self._call(self._clock.go_on)
        self._watch(self._thread.step(), stops=True)

    def step_phase(self) -> None:
        self._call(self._clock.go_on)
        self._watch(self._thread.step_phase(), stops=True)

    def add_request(
        self, prompt: str, max_tokens: int = MAX_TOKENS, temperature: float = 0.0, n: int = 1
    ) -> None:
        messages = ({"role": "user", "content": prompt},)
        params = SamplingParams(temperature=temperature, max_tokens=max_tokens, n=n)
        self._call(lambda engine: self._add(engine, ASKED_HERE, messages, params))

    def add_burst(self) -> None:
        self._call(self._add_burst)

    def abort(self, request_id: str) -> None:
        def tell(future: Future[RequestOutput | None]) -> None:
            if future.exception() is None and future.result() is None:
                self._messages.append(f"There is no unfinished request {request_id} to abort.")

        self._say_if_it_waits(f"Request {request_id} will be aborted")
        future = self._thread.abort_request(request_id)
        future.add_done_callback(tell)
        self._watch(future)

    def set_option(self, name: str, value: int) -> None:
        self._say_if_it_waits(f"{name} will change")
        self._watch(self._thread.set_option(name, value))

    def record_attention_mass(
        self, on: bool, seq_id: str | None = None, layer: int | None = None, head: int | None = None
    ) -> None:
        self._call(lambda engine: engine.record_attention_mass(on, seq_id, layer, head))

    def trace_kernel(self, seq_id: str) -> None:
        self._call(lambda engine: engine.trace_kernel(seq_id))

    def explain_tokens(self, seq_id: str, on: bool) -> None:
        self._call(lambda engine: engine.explain_tokens(seq_id, on))

    def messages(self) -> list[str]:
        return [self._messages.popleft() for _ in range(len(self._messages))]

    # ---- in the engine's thread ----

    def _add(
        self, engine: LLMEngine, name: str, messages: tuple[Message, ...], params: SamplingParams
    ) -> None:
        text = messages[-1]["content"]
        if not text.strip():
            raise EmptyPromptError("There is nothing to send: type a message first.")
        tokenizer = engine.tokenizer
        if tokenizer.has_chat_template:
            token_ids = tokenizer.apply_chat_template(list(messages))
        else:
            token_ids = tokenizer.encode(" ".join(message["content"] for message in messages))
        header = engine.log_header()
        room = min(header.max_model_len, header.num_blocks * header.block_size) - len(token_ids)
        # At least one token: `add_request` refuses a prompt that is too long.
        params = replace(params, max_tokens=min(params.max_tokens, max(1, room)))
        prompt: TokensPrompt = {"prompt_token_ids": token_ids, "prompt": text}
        engine.add_request(f"{name}{self._num_added + 1}", prompt, params)
        self._num_added += 1

    def _add_burst(self, engine: LLMEngine) -> None:
        """Send the first requests of the default demo: the model is known to answer them well."""
        scenario = SHARED_PREFIX
        if engine.log_header().model == HOUSE_MODEL:
            scenario = for_the_house_model(scenario)
        for request in scenario.arrivals[:_BURST_SIZE]:
            self._add(engine, BURST, request.messages, request.params)

    def _call(self, command: Callable[[LLMEngine], object]) -> None:
        self._watch(self._thread.call(command))

    def _watch(self, future: Future, *, stops: bool = False) -> None:
        """Turn a failure of a command into a message. stops: the engine is paused after it"""
        future.add_done_callback(self._tell_refusal)
        if stops:
            future.add_done_callback(self._clock.stop)

    def _tell_refusal(self, future: Future) -> None:
        error = future.exception()
        # When the engine fails, all pending commands fail, and `_tell_end` reports it once.
        if error is None or (isinstance(error, EngineDeadError) and error.__cause__ is not None):
            return
        expected = isinstance(error, MinivllmError)
        self._messages.append(str(error) if expected else f"That failed: {error!r}.")

    def _tell_end(self, ended: Future[None]) -> None:
        if (error := ended.exception()) is not None:
            self._messages.append(f"The engine failed: {error}")

    def _say_if_it_waits(self, what: str) -> None:
        """Say so if a command waits for the end of a paused step: the user need not repeat it."""
        paused, next_phase = self.state()
        if paused and next_phase != "schedule":
            self._messages.append(f"{what} when the current step has ended.")
