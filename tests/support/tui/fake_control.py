"""An engine control that does nothing but remember what it was asked: for tests of the keys that
reach it.
"""

from minivllm.tui.control import ControlState


class FakeControl:
    """See `minivllm.tui.control.EngineControl`. `calls` has every call with its arguments, oldest
    first.
    """

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.paused = False
        self.to_say: list[str] = []

    def state(self) -> ControlState:
        return ControlState(self.paused, "schedule")

    def pause(self) -> None:
        self.paused = True
        self.calls.append(("pause",))

    def resume(self) -> None:
        self.paused = False
        self.calls.append(("resume",))

    def step(self) -> None:
        self.calls.append(("step",))

    def step_phase(self) -> None:
        self.calls.append(("step_phase",))

    def add_request(self, *question: object) -> None:
        self.calls.append(("add_request", *question))

    def add_burst(self) -> None:
        self.calls.append(("add_burst",))

    def abort(self, request_id: str) -> None:
        self.calls.append(("abort", request_id))

    def set_option(self, name: str, value: int) -> None:
        self.calls.append(("set_option", name, value))

    def record_attention_mass(self, on: bool) -> None:
        self.calls.append(("record_attention_mass", on))

    def trace_kernel(self, seq_id: str) -> None:
        self.calls.append(("trace_kernel", seq_id))

    def messages(self) -> list[str]:
        said, self.to_say = self.to_say, []
        return said
