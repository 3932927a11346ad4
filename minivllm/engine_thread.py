"""`EngineThread`: one thread owns the engine, and everybody else talks to it.

    with EngineThread(LLMEngine.from_config(config)) as thread:
        future = thread.add_request("a", "Hello", SamplingParams(max_tokens=8), on_output=show)
        print(future.result().outputs[0].text)

The engine is not thread-safe and need not be: callers in any thread put commands into a queue, the
engine's thread carries them out between two steps, and each caller gets a future. It knows nothing of
terminals or HTTP; the dashboard, the chat and the server all use it.

The easy thing to get wrong is the end. Whoever waits must hear of it: a request that is running, a
command that is still in the queue, and a command that comes too late each get an answer, whether the
thread was stopped or the engine failed. And with nothing to do the thread sleeps; it never polls.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from minivllm.clock import MonotonicClock
from minivllm.engine import LLMEngine, Prompt
from minivllm.errors import EngineDeadError
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import SamplingParams

T = TypeVar("T")
OnOutput = Callable[[RequestOutput], None]
"""Called in the engine's thread with each output of a request: be quick, and do not raise."""


@dataclass(slots=True)
class _Command:
    function: Callable[[LLMEngine], Any]
    future: Future


@dataclass(slots=True)
class _Waiter:
    """Who waits for the end of one request."""

    future: Future[RequestOutput]
    on_output: OnOutput | None


class EngineThread:
    """Runs `engine.step()` in a thread of its own while there is work. `start` it, then `stop` and `join` it.

    `before_step(engine)` is called in that thread before each step, and when there is nothing to do, so that
    a script can add requests at exact steps. `seconds_per_step` is the least time from the start of one
    step to the start of the next, so that a person can follow.
    """

    def __init__(
        self,
        engine: LLMEngine,
        *,
        before_step: Callable[[LLMEngine], None] | None = None,
        seconds_per_step: float = 0.0,
    ) -> None:
        self.ended: Future[None] = Future()
        """Done when the thread has ended; holds the error that ended it, if one did."""
        self._engine = engine
        self._before_step = before_step
        self._seconds_per_step = seconds_per_step
        self._now = MonotonicClock().now
        self._next_step_at = 0.0
        self._thread = Thread(target=self._run, name="minivllm-engine", daemon=True)
        self._commands: SimpleQueue[_Command] = SimpleQueue()
        # Guards `_closed` against the queue: no command may slip in behind the last look at it.
        self._lock = Lock()
        self._closed = False
        # Read and written by the engine's thread alone.
        self._waiters: dict[str, _Waiter] = {}
        self._paused = False
        self._stopping = False

    # ---- life, from any thread ----

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask for the end: after the step in progress, unfinished requests are aborted. Returns at once."""
        with self._lock:
            if not self._closed:
                self._commands.put(_Command(self._stop_here, Future()))

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end. Raises the error that ended the thread, or `TimeoutError`."""
        self.ended.result(timeout)

    def __enter__(self) -> EngineThread:
        self.start()
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *exc_info: object) -> None:
        self.stop()
        # An error of the caller's is not hidden behind one of ours.
        if self.ended.exception() is not None and exc_type is None:
            self.join()

    # ---- commands, from any thread: each returns at once with a future ----

    def add_request(
        self,
        request_id: str,
        prompt: Prompt,
        params: SamplingParams,
        priority: int = 0,
        on_output: OnOutput | None = None,
    ) -> Future[RequestOutput]:
        """Queue a request; the future holds its last output, or the error that refused it.

        `on_output` gets every output, the last one too. The future cannot be cancelled once the request is
        in the engine: `abort_request` ends it.
        """
        future: Future[RequestOutput] = Future()

        def add(engine: LLMEngine) -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                engine.add_request(request_id, prompt, params, priority)
            except Exception as error:  # whatever refused it belongs to this caller, the engine goes on
                future.set_exception(error)
            else:
                self._waiters[request_id] = _Waiter(future, on_output)

        if error := self._submit(add).exception_if_closed:
            future.set_exception(error)
        return future

    def abort_request(self, request_id: str) -> Future[RequestOutput | None]:
        """End a request; the future holds its output so far, or None if it had ended already."""
        return self.call(lambda engine: self._abort(request_id))
