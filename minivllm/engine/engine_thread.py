"""`EngineThread`: one thread owns the engine; other threads send it commands.

    with EngineThread(LLMEngine.from_config(config)) as thread:
        future = thread.add_request("a", "Hello", SamplingParams(max_tokens=8), on_output=show)
        print(future.result().outputs[0].text)

A paused engine may be in the middle of a step. It then accepts requests, but aborts and changes of
options wait for the end of the step. When the thread ends, by `stop` or by an error, every open
future gets a result or an error, and later commands get an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import NamedTuple, TypeVar

from minivllm.clock import MonotonicClock
from minivllm.engine.engine import LLMEngine
from minivllm.engine.requests import Prompt
from minivllm.errors import EngineDeadError
from minivllm.events import types as ev
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import SamplingParams

T = TypeVar("T")
OnOutput = Callable[[RequestOutput], None]
"""A function that the engine's thread calls with each output of a request; it must be quick.

If the function raises, the request is aborted.
"""


class EngineThread:
    """Runs `engine.step()` in its own thread while there is work. `start`, then `stop` and `join`.

    `before_step(engine)` is called in the engine's thread before each step, and whenever there is
    nothing to do, so a script can add requests at exact steps. `seconds_per_step` is the minimum
    time between the starts of two steps, so that people can follow.
    """

    def __init__(
        self,
        engine: LLMEngine,
        *,
        before_step: Callable[[LLMEngine], None] | None = None,
        seconds_per_step: float = 0.0,
    ) -> None:
        self.ended: Future[None] = Future()
        """Done when the thread has ended. If an error ended the thread, the future holds it."""
        self._engine = engine
        self._before_step = before_step or (lambda engine: None)
        self._seconds_per_step = seconds_per_step
        self._now = MonotonicClock().now
        self._mailbox = Mailbox(lambda: engine.next_phase != "schedule")
        # Only the engine's thread uses the fields below.
        self._waiters: dict[str, tuple[Future[RequestOutput], OnOutput | None]] = {}
        self.paused = False
        """Any thread may read this."""
        # Single steps or phases that a paused engine is asked to run, with their futures.
        self._singles: deque[tuple[Future, Callable[[], list[RequestOutput] | None]]] = deque()
        self._next_step_at = 0.0
        self._stopping = False

    # ---- beginning and end, from any thread ----

    def start(self) -> None:
        # A daemon thread, so that the program can exit even if `stop` was never called.
        Thread(target=self.run, name="minivllm-engine", daemon=True).start()

    def stop(self) -> None:
        """Ask the thread to finish the current step, abort all unfinished requests and end."""
        self.call(lambda engine: setattr(self, "_stopping", True))

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended. Raise the error that ended it, or `TimeoutError`."""
        self.ended.result(timeout)

    def __enter__(self) -> EngineThread:
        self.start()
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *exc_info: object) -> None:
        self.stop()
        # Do not hide an error in the caller's code behind the engine's error.
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
        """Queue a request. The future holds the request's last output, or why it failed.

        Cancelling the future works until the engine has the request; later, use `abort_request`.
        """

        def add(future: Future[RequestOutput]) -> None:
            self._engine.add_request(request_id, prompt, params, priority)
            self._waiters[request_id] = (future, on_output)

        return self._mailbox.post(add)

    def abort_request(self, request_id: str) -> Future[RequestOutput | None]:
        """End a request between two steps. The future holds its output so far; None if it ended."""
        return self.call(lambda engine: self._abort(request_id), between_steps=True)

    def set_option(self, name: ev.LiveOption, value: int) -> Future[None]:
        """Call `LLMEngine.set_option`. A step in progress ends first."""
        return self.call(lambda engine: engine.set_option(name, value), between_steps=True)

    def call(self, function: Callable[[LLMEngine], T], between_steps: bool = False) -> Future[T]:
        """Run `function(engine)` between two steps. The future holds its result or exception.

        between_steps: do not run between two phases either, if a paused engine is in a step
        """
        answer = lambda future: future.set_result(function(self._engine))  # noqa: E731
        return self._mailbox.post(answer, between_steps)

    def pause(self) -> Future[None]:
        """Stop running steps. The future is done when the engine has paused; commands still run."""
        return self.call(lambda engine: setattr(self, "paused", True))

    def resume(self) -> Future[None]:
        return self.call(lambda engine: setattr(self, "paused", False))

    def step(self) -> Future[list[RequestOutput]]:
        """Pause, and run one step or the rest of the current step. The future holds its outputs."""
        return self._take_single(self._engine.step)

    def step_phase(self) -> Future[list[RequestOutput] | None]:
        """Pause, and run one phase. The future holds the outputs if the step ends with it."""
        return self._take_single(self._engine.step_phase)

    def _take_single(self, run: Callable[[], list[RequestOutput] | None]) -> Future:
        def ask(future: Future) -> None:
            self.paused = True
            # Let the main loop run the step or phase, because an error in it must end the thread.
            self._singles.append((future, run))

        return self._mailbox.post(ask)

    @property
    def next_phase(self) -> ev.Phase:
        """Any thread may read this."""
        return self._engine.next_phase

    # ---- the engine's thread ----

    def run(self) -> None:
        """Run the engine in the calling thread until `stop`."""
        error = None
        try:
            while not self._stopping:
                self._mailbox.carry_out(self._seconds_until_step())
                if not self._stopping and self._seconds_until_step() == 0.0:
                    self._advance()
            if self._engine.next_phase != "schedule":
                self._finish_step(self._engine.step())
            for request_id in self._engine.inspect().requests:
                self._abort(request_id)
        except BaseException as caught:
            error = caught
        self._close(error)

    def _seconds_until_step(self) -> float | None:
        """Seconds until the next step is due; None to sleep until a command arrives."""
        if self._singles:
            return 0.0
        if self.paused:
            return None
        if self._engine.next_phase != "schedule":
            return 0.0
        self._before_step(self._engine)
        if not self._engine.has_unfinished_requests():
            return None
        return max(0.0, self._next_step_at - self._now())

    def _advance(self) -> None:
        single, run = self._singles[0] if self._singles else (None, self._engine.step)
        if self._engine.next_phase == "schedule":
            self._next_step_at = self._now() + self._seconds_per_step
            if single is not None:
                self._before_step(self._engine)
        outputs = run()
        if outputs is not None:
            self._finish_step(outputs)
        if single is not None:
            self._singles.popleft()
            single.set_result(outputs)

    def _finish_step(self, outputs: list[RequestOutput]) -> None:
        """Deliver the outputs of a finished step. Run the commands that waited for its end."""
        for output in outputs:
            self._deliver(output)
        self._mailbox.carry_out_held()

    def _deliver(self, output: RequestOutput) -> None:
        """Pass an output to the sender of its request. A script's request has no sender."""
        if output.request_id not in self._waiters:
            return
        future, on_output = self._waiters[output.request_id]
        error = None if output.error is None else output.error_type(output.error)
        if error is None and on_output is not None:
            try:
                on_output(output)
            except Exception as caught:
                error = caught
                self._engine.abort_request(output.request_id)
        if error is not None or output.finished:
            del self._waiters[output.request_id]
        if error is not None:
            future.set_exception(error)
        elif output.finished:
            future.set_result(output)

    def _abort(self, request_id: str) -> RequestOutput | None:
        output = self._engine.abort_request(request_id)
        if output is not None:
            self._deliver(output)
        return output

    def _close(self, error: BaseException | None) -> None:
        why = "The engine's thread was stopped." if error is None else f"The engine failed: {error}"
        waiting = [future for future, _ in [*self._waiters.values(), *self._singles]]
        for future in waiting + self._mailbox.close():
            # Make a new exception for each future: several threads may raise a shared one, which
            # would mix up its tracebacks.
            dead = EngineDeadError(why)
            dead.__cause__ = error
            future.set_exception(dead)
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)


class _Command(NamedTuple):
    future: Future
    run: Callable[[Future], None]
    between_steps: bool


class Mailbox:
    """Takes commands from any thread (`post`) and runs them in one, which calls the others."""

    def __init__(self, in_step: Callable[[], bool]) -> None:
        """in_step: returns whether a step is in progress; called before each command"""
        self._in_step = in_step
        self._commands: SimpleQueue[_Command] = SimpleQueue()
        self._held: list[_Command] = []
        # Guards `_closed`, so that no command enters the queue after `close` has emptied it.
        self._lock = Lock()
        self._closed = False

    def post(self, run: Callable[[Future[T]], None], between_steps: bool = False) -> Future[T]:
        """Queue `run(future)`, which must set the future's result. If it raises, the future fails.

        Returns the future.
        """
        future: Future[T] = Future()
        with self._lock:
            if not self._closed:
                self._commands.put(_Command(future, run, between_steps))
                return future
        future.set_exception(
            EngineDeadError("The engine's thread has ended: start a new one to continue.")
        )
        return future

    def carry_out(self, seconds: float | None) -> None:
        """Wait up to `seconds` (None: for ever) for a command. Run all queued commands."""
        try:
            self._carry_out(self._commands.get(timeout=seconds))
            # Run only commands that are queued by now, so that a flood of commands cannot stop the
            # steps.
            for _ in range(self._commands.qsize()):
                self._carry_out(self._commands.get_nowait())
        except Empty:
            return

    def carry_out_held(self) -> None:
        """Run the commands that waited for the end of the step."""
        held, self._held = self._held, []
        for command in held:
            self._carry_out(command)

    def _carry_out(self, command: _Command) -> None:
        if command.between_steps and self._in_step():
            self._held.append(command)
            return
        # From here on the future cannot be cancelled, so it can always receive its result.
        if not command.future.set_running_or_notify_cancel():
            return
        try:
            command.run(command.future)
        # The error goes to the command's sender; the engine continues.
        except BaseException as error:
            command.future.set_exception(error)

    def close(self) -> list[Future]:
        """Refuse further commands. Returns the futures of commands that will not run."""
        with self._lock:
            self._closed = True
        left = self._held
        while not self._commands.empty():
            left.append(self._commands.get())
        return [command.future for command in left if command.future.set_running_or_notify_cancel()]
