"""What the dashboard can ask of an engine in its own process: pause, step, new requests, options.

Only types and a protocol, so that the dashboard imports neither the engine nor torch; implemented
in `minivllm.cli.serving.engine_control`. Recordings and remote engines have no control. Calls
return at once: events show their results, and `messages` returns refusals.
"""

from typing import NamedTuple, Protocol

from minivllm.events.types import Phase

MAX_TOKENS = 64
"""Default maximum of an answer's tokens: long enough to watch, and soon over."""
ASKED_HERE = "user-"
"""Prefix of the ids of requests that a user typed."""
BURST = "burst-"


class Question(NamedTuple):
    """A prompt that the user typed, with options named as in `SamplingParams`."""

    prompt: str
    max_tokens: int = MAX_TOKENS
    temperature: float = 0.0
    n: int = 1


class Entry(NamedTuple):
    """The two sides of a race: short names of configurations, as in `minivllm compare`."""

    a: str = "static+contiguous"
    b: str = "continuous+paged"


class ControlState(NamedTuple):
    paused: bool
    next_phase: Phase
    """Only meaningful while paused; `schedule` means between two steps."""


class EngineControl(Protocol):
    """The dashboard's thread calls these methods. None of them waits."""

    pauses_with_picture: bool
    """Whether the run waits for its reader, as in a debugger: the keys that pause the picture
    pause the engine too, and a step at the newest moment runs one step of the engine."""

    def state(self) -> ControlState: ...

    def pause(self) -> None:
        """Stop taking steps. A step or phase requested earlier still runs to its end."""

    def resume(self) -> None:
        """Take steps again, even from the middle of a step."""

    def step(self) -> None:
        """Pause, then finish the current step, or take one step if none is in progress."""

    def step_phase(self) -> None:
        """Pause, then run the next phase of a step."""

    def add_request(
        self, prompt: str, max_tokens: int = MAX_TOKENS, temperature: float = 0.0, n: int = 1
    ) -> None:
        """Add a user's prompt. Ids are numbered in arrival order: `user-1`, `burst-2`, ..."""

    def add_burst(self) -> None:
        """Add four requests at once with the same long beginning."""

    def abort(self, request_id: str) -> None:
        """End a request. During a step, the request ends when the step does."""

    def set_option(self, name: str, value: int) -> None:
        """Change `max_num_batched_tokens` or `max_num_seqs` from the next step on.

        Neither can exceed the value with which the engine was built.
        """

    def record_attention_mass(
        self, on: bool, seq_id: str | None = None, layer: int | None = None, head: int | None = None
    ) -> None:
        """Start or stop emitting `attention.mass`, for each sequence of each step, and
        `attention.tokens` for one sequence: of a layer and head, or their mean.
        """

    def trace_kernel(self, seq_id: str) -> None:
        """Emit one `kernel.traced` for the next decode of this sequence."""

    def explain_tokens(self, seq_id: str, on: bool) -> None:
        """Start or stop emitting `token.explained` for each token of this sequence."""

    def messages(self) -> list[str]:
        """Refusals and errors since the last call, oldest first."""
