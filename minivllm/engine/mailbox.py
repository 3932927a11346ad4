"""`Mailbox`: takes commands from any thread and runs them in one thread, each with a future.

`EngineThread` receives all its commands here. A command can wait until the current step is over. No
command is lost when the mailbox closes: later commands are refused, and `close` returns the futures
of all commands that have not run.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TypeVar

from minivllm.errors import EngineDeadError

T = TypeVar("T")


@dataclass(slots=True)
class _Command:
    future: Future
    run: Callable[[], None]
    between_steps: bool
    """Wait for the end of the step instead of running between two phases."""


class Mailbox:
    """Call `post` from any thread. Call the other methods from the thread that runs commands."""

    def __init__(self, in_step: Callable[[], bool]) -> None:
        """in_step: returns whether a step is in progress; called before each command"""
        self._in_step = in_step
        self._commands: SimpleQueue[_Command] = SimpleQueue()
        self._held: list[_Command] = []
        # Guards `_closed`, so that no command enters the queue after `close` has emptied it.
        self._lock = Lock()
        self._closed = False

    def post(
        self, future: Future[T], run: Callable[[], None], between_steps: bool = False
    ) -> Future[T]:
        """Queue `run`, which must set the future's result. If `run` raises, the future fails."""
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
            command.run()
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
