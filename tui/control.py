"""What the dashboard may ask of an engine in its own process. The real one is `minivllm.engine_control`.

Only the protocol is here: the dashboard imports no engine. Every call returns at once; what is refused comes back as a
sentence in `messages`. What was done shows in the events, like everything else.
"""

from typing import Literal, NamedTuple, Protocol

Phase = Literal["schedule", "execute", "sample"]


class ControlState(NamedTuple):
    """Whether the engine goes on by itself, and what it would do next."""

    paused: bool
    next_phase: Phase
    """"schedule": it stands between two steps."""


class EngineControl(Protocol):
    """Steers one engine."""

    def state(self) -> ControlState: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def step(self) -> None:
        """Finish the step that is under way, or take one; then stand still."""

    def step_phase(self) -> None:
        """Run the next phase of a step, then stand still."""

    def add_request(self, prompt: str) -> None:
        """One message of a user, with a greedy answer of sensible length."""

    def add_burst(self) -> None:
        """Four requests that begin with the same long prefix."""

    def abort(self, request_id: str) -> None: ...

    def set_option(self, name: str, value: int) -> None:
        """`max_num_batched_tokens` or `max_num_seqs`, from the next step on."""

    def record_attention_mass(self, on: bool) -> None:
        """Tell an `attention.mass` event for every scheduled sequence, or no longer."""

    def trace_kernel(self, seq_id: str) -> None:
        """Tell a `kernel.traced` event at that sequence's next decode."""

    def messages(self) -> list[str]:
        """Sentences that came since the last call."""
