"""What the dashboard may ask of an engine in its own process: stop it, step it, feed it, change its
options.

Types and a protocol alone, so that the dashboard needs neither the engine nor torch;
`minivllm.cli.serving.engine_control` is the real one. A source that only replays or listens has no
control. Every call returns at once, long before the engine has acted: the result is seen in the
events, and what was refused is read from `messages`.
"""

from typing import NamedTuple, Protocol

from minivllm.events.types import Phase

MAX_TOKENS = 64
"""Of an answer, if nothing else is asked for: long enough to be watched, short enough to end."""
ASKED_HERE = "user-"
"""What the names of requests that somebody typed begin with."""
BURST = "burst-"
"""And those of a burst."""


class Question(NamedTuple):
    """What a person asks of the model; the names are those of `SamplingParams`."""

    prompt: str
    max_tokens: int = MAX_TOKENS
    temperature: float = 0.0
    n: int = 1


class ControlState(NamedTuple):
    """Where the engine stands."""

    paused: bool
    next_phase: Phase
    """`schedule`: it stands between two steps, else in the middle of one. Of interest while
    paused.
    """


class EngineControl(Protocol):
    """The keys that reach the engine. Calls come from the dashboard's thread and never wait."""

    def state(self) -> ControlState:
        """As it is now."""

    def pause(self) -> None:
        """Take no more steps. What was asked for before still finishes its step or phase."""

    def resume(self) -> None:
        """Take steps again, also from the middle of one."""

    def step(self) -> None:
        """Pause, and finish the step that is under way or take one."""

    def step_phase(self) -> None:
        """Pause, and run the next phase of a step."""

    def add_request(
        self, prompt: str, max_tokens: int = MAX_TOKENS, temperature: float = 0.0, n: int = 1
    ) -> None:
        """A message of a person. Requests are numbered in the order in which they came in:
        `user-1`, `burst-2`, ...
        """

    def add_burst(self) -> None:
        """Four requests at once that begin with the same long text."""

    def abort(self, request_id: str) -> None:
        """End a request; in the middle of a step at its end."""

    def set_option(self, name: str, value: int) -> None:
        """Change `max_num_batched_tokens` or `max_num_seqs` from the next step on, up to what the
        engine was built with.
        """

    def record_attention_mass(self, on: bool) -> None:
        """Have an event `attention.mass` told for each sequence of each step, or no longer."""

    def trace_kernel(self, seq_id: str) -> None:
        """Have one event `kernel.traced` told for that sequence's next decode."""

    def messages(self) -> list[str]:
        """What was refused or went wrong since the last call: sentences for a person, oldest
        first.
        """
