"""What the dashboard can ask of an engine in its own process: pause, step, new requests, options.

Only types and a protocol, so that the dashboard needs neither the engine nor torch.
`minivllm.cli.serving.engine_control` implements it. Recordings and remote engines have no control.

Every call returns at once, before the engine has acted. Events show the result; `messages` returns
refusals.
"""

from typing import NamedTuple, Protocol

from minivllm.events.types import Phase

MAX_TOKENS = 64
"""Default length of an answer: long enough to watch, short enough to end."""
ASKED_HERE = "user-"
"""Prefix of the ids of requests that a user typed."""
BURST = "burst-"
"""Prefix of the ids of requests in a burst."""


class Question(NamedTuple):
    """A prompt that the user typed, with options named as in `SamplingParams`."""

    prompt: str
    max_tokens: int = MAX_TOKENS
    temperature: float = 0.0
    n: int = 1


class ControlState(NamedTuple):
    """Whether the engine is paused, and where."""

    paused: bool
    next_phase: Phase
    """Next phase to run; only meaningful while paused. `schedule` means between two steps."""


class EngineControl(Protocol):
    """Commands to the engine. Calls come from the dashboard's thread and never wait."""

    def state(self) -> ControlState:
        """The current state."""

    def pause(self) -> None:
        """Stop taking steps. A step or phase that was requested earlier still finishes."""

    def resume(self) -> None:
        """Continue taking steps, also from the middle of one."""

    def step(self) -> None:
        """Pause, and finish the current step or take one."""

    def step_phase(self) -> None:
        """Pause, and run the next phase of a step."""

    def add_request(
        self, prompt: str, max_tokens: int = MAX_TOKENS, temperature: float = 0.0, n: int = 1
    ) -> None:
        """Add a user's prompt. Requests are numbered in arrival order: `user-1`, `burst-2`, ..."""

    def add_burst(self) -> None:
        """Add four requests at once whose prompts begin with the same long text."""

    def abort(self, request_id: str) -> None:
        """End a request. In the middle of a step, it ends with the step."""

    def set_option(self, name: str, value: int) -> None:
        """Change `max_num_batched_tokens` or `max_num_seqs` from the next step on.

        The upper limit is the value that the engine was built with.
        """

    def record_attention_mass(self, on: bool) -> None:
        """Start or stop emitting `attention.mass` for each sequence of each step."""

    def trace_kernel(self, seq_id: str) -> None:
        """Emit one `kernel.traced` for the next decode of this sequence."""

    def messages(self) -> list[str]:
        """Refusals and errors since the last call, as sentences for the user, oldest first."""
