"""`KernelTracer`: the kernel x-ray of a running sequence, told as an event.

Somebody names a sequence; at its next decode the runner keeps the queries, keys and values that one layer's
attention reads, and the interpreted kernel is run over them once more and watched. So what is shown is the
engine's own data and the kernel's own way through it, whatever backend the engine attends with.

The engine waits for it, most of a second the first time: it is asked for by a person, and an answer that came
some steps later would make a recording depend on the machine's speed. Where Triton is not installed the answer is a
recording that is shipped with minivllm, and says so. The easy thing to get wrong is silence: a sequence
may end before it decodes, and Triton may refuse. Each question is answered by exactly one event, which then says why not.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from minivllm.core.request import Request
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.errors import InvalidRequestError, KernelTraceError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus

if TYPE_CHECKING:
    from minivllm.engine.stepper import Runner
    from minivllm.runtime.attention.xray import DecodeSample


class KernelTracer:
    """Answers who asks for traces, between the phases of a step."""

    def __init__(self, runner: Runner, bus: EventBus) -> None:
        self._runner = runner
        self._bus = bus
        self._asked: list[str] = []
        self._watched: list[str] = []

    def ask(self, seq_id: str, requests: Mapping[str, Request]) -> None:
        """Trace the next decode of this sequence. Raises `InvalidRequestError`, in one sentence."""
        if not _is_unfinished(seq_id, requests):
            raise InvalidRequestError(f"There is no unfinished sequence {seq_id!r} to trace: choose one that runs.")
        if seq_id not in self._asked:
            self._asked.append(seq_id)

    def watch(self, plan: SchedulerOutput) -> None:
        """Before a plan is executed: have the runner keep what the asked-for decodes in it read."""
        if not self._asked or not self._bus.active:
            return
        decodes = {item.sequence.seq_id: i for i, item in enumerate(plan.scheduled) if item.kind == "decode"}
        self._watched = [seq_id for seq_id in self._asked if seq_id in decodes]
        self._runner.watched_decodes = [decodes[seq_id] for seq_id in self._watched]

    def tell(self) -> None:
        """After it: trace them."""
        if not self._watched:
            return
        # No sample at all: the model raised, and its sequences were run one by one. They are watched in the next step.
        watched = self._watched if self._runner.decode_samples else []
        for seq_id, sample in zip(watched, self._runner.decode_samples, strict=True):
            self._asked.remove(seq_id)
            if find_spec("triton") is None:
                self._answer_from_recording(seq_id, sample)
                continue
            from minivllm.runtime.attention.xray import trace_decode

            try:
                programs = msgspec.convert(trace_decode(sample), list[ev.TracedProgram], from_attributes=True)
            except KernelTraceError as error:
                self._answer(seq_id, sample.layer, sample.num_tokens, [], str(error))
            else:
                self._answer(seq_id, sample.layer, sample.num_tokens, programs)
        self._watched, self._runner.watched_decodes, self._runner.decode_samples = [], [], []

    def forget_ended(self, requests: Mapping[str, Request]) -> None:
        """Answer for those who have ended without the decode that was waited for."""
        for seq_id in [one for one in self._asked if not _is_unfinished(one, requests)]:
            self._asked.remove(seq_id)
            self._answer(seq_id, 0, 0, [], f"{seq_id} has ended before its next decode.")

    def _answer_from_recording(self, seq_id: str, sample: DecodeSample) -> None:
        from minivllm.runtime.attention.recorded_xray import recorded_trace

        found = recorded_trace(sample)
        programs = msgspec.convert(found.programs, list[ev.TracedProgram])
        self._answer(seq_id, found.layer, found.num_tokens, programs, recorded=found.of)

    def _answer(
        self,
        seq_id: str,
        layer: int,
        num_tokens: int,
        programs: list[ev.TracedProgram],
        problem: str | None = None,
        recorded: ev.RecordedDecode | None = None,
    ) -> None:
        if self._bus.active:
            self._bus.emit(ev.KernelTraced, seq_id, layer, num_tokens, programs, problem, recorded)


def _is_unfinished(seq_id: str, requests: Mapping[str, Request]) -> bool:
    request = requests.get(seq_id.rpartition(".")[0])
    return request is not None and any(
        sequence.seq_id == seq_id and not sequence.status.is_finished for sequence in request.sequences
    )
