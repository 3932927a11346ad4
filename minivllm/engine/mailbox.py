"""`Mailbox`: commands from any thread, carried out in one, each with a future for its sender.

What `EngineThread` talks to the world through. It knows no engine; it is only told whether a step
is under way, for a command may have to wait until it is over.

The easy thing to get wrong is the last letter. No command may slip in after the last look into the
box, and each that will not be carried out, also one that was held back, must still be answered.
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
    """What a caller wants done, and the future that it holds."""

    future: Future
    run: Callable[[], None]
    between_steps: bool
    """Not between two phases of one."""


class Mailbox:
    """`post` from any thread; the rest is for the one that carries the commands out."""

    def __init__(self, in_step: Callable[[], bool]) -> None:
        """in_step: whether a step is under way, asked before each command"""
        self._in_step = in_step
        self._commands: SimpleQueue[_Command] = SimpleQueue()
        self._held: list[_Command] = []
        # Guards `_closed`, so that nothing is put into the queue after `close` has emptied it.
        self._lock = Lock()
        self._closed = False

    def post(
        self, future: Future[T], run: Callable[[], None], between_steps: bool = False
    ) -> Future[T]:
        """Have `run` called. What it raises is the future's, any other result it has to set
        itself.
        """
        with self._lock:
            if not self._closed:
                self._commands.put(_Command(future, run, between_steps))
                return future
        future.set_exception(
            EngineDeadError("The engine's thread has ended: start a new one to go on.")
        )
        return future

    def carry_out(self, seconds: float | None) -> None:
        """Wait up to `seconds` (None: for ever) for a command; carry it out and those that came
        with it.
        """
        try:
            self._carry_out(self._commands.get(timeout=seconds))
            # Only those that are there now: callers without end must not keep the engine from its
            # steps.
            for _ in range(self._commands.qsize()):
                self._carry_out(self._commands.get_nowait())
        except Empty:
            return

    def carry_out_held(self) -> None:
        """The step that some commands had to wait for is over."""
        held, self._held = self._held, []
        for command in held:
            self._carry_out(command)

    def _carry_out(self, command: _Command) -> None:
        if command.between_steps and self._in_step():
            self._held.append(command)
            return
        # From here on the future cannot be cancelled, so it can always be given its result.
        if not command.future.set_running_or_notify_cancel():
            return
        try:
            command.run()
        except BaseException as error:  # it belongs to whoever sent the command; the engine goes on
            command.future.set_exception(error)

    def close(self) -> list[Future]:
        """Take no more commands; the futures of those that will not be carried out, for the caller
        to answer.
        """
        with self._lock:
            self._closed = True
        left = self._held
        while not self._commands.empty():
            left.append(self._commands.get())
        return [command.future for command in left if command.future.set_running_or_notify_cancel()]
