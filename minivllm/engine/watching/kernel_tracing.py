"""`KernelTracer`: traces what an attention kernel reads for one sequence, as an event. Beside it,
`AttentionRecorder` emits where the tokens of a step look.

    ask("a.0")  ->  next decode of a.0: the runner keeps one layer's queries, keys and values
                ->  the kernel `decode_grouped` runs on them in Triton's interpreter, which
                    records every read

So the trace (x-ray) shows the engine's own data, with any attention backend. The engine waits for
the trace: the first takes most of a second (with a CUDA device, each takes a few seconds).
Otherwise, the place of the event in a recording would depend on the machine's speed.

Without Triton, the event has a trace that ships with minivllm and is marked as recorded. For each
sequence asked for, exactly one event follows. If the sequence ends before it decodes, or if Triton
fails, the event has the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

import msgspec

from minivllm.core.request import Request
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.errors import InvalidRequestError, KernelTraceError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.runtime.step_result import DecodeSample, StepResult, TokenWatch


class KernelTracer:
    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._asked: list[str] = []

    @property
    def active(self) -> bool:
        return bool(self._asked)

    def ask(self, seq_id: str, requests: Mapping[str, Request]) -> None:
        """Trace a sequence's next decode. `InvalidRequestError` if it is unknown or has ended."""
        if not _is_unfinished(seq_id, requests):
            raise InvalidRequestError(
                f"There is no unfinished sequence {seq_id!r} to trace: choose a running one."
            )
        if seq_id not in self._asked:
            self._asked.append(seq_id)

    def decodes_to_watch(self, plan: SchedulerOutput) -> tuple[int, ...]:
        """Indices into `plan.scheduled` of the decodes to trace."""
        if not self._bus.active:
            return ()
        decodes = {
            item.sequence.seq_id: i
            for i, item in enumerate(plan.scheduled)
            if item.kind == "decode"
        }
        return tuple(decodes[seq_id] for seq_id in self._asked if seq_id in decodes)

    def trace(self, seq_id: str, sample: DecodeSample) -> None:
        self._asked.remove(seq_id)
        if find_spec("triton") is None:
            self._answer_from_recording(seq_id, sample)
            return
        from minivllm.runtime.attention.xray import trace_decode

        try:
            programs = msgspec.convert(
                trace_decode(sample), list[ev.TracedProgram], from_attributes=True
            )
        except KernelTraceError as error:
            self._answer(seq_id, sample.layer, sample.num_tokens, [], str(error))
        else:
            self._answer(seq_id, sample.layer, sample.num_tokens, programs)

    def forget_ended(self, requests: Mapping[str, Request]) -> None:
        """For each sequence that ended before its decode could be traced, emit the reason."""
        for seq_id in [seq_id for seq_id in self._asked if not _is_unfinished(seq_id, requests)]:
            self._asked.remove(seq_id)
            self._answer(seq_id, 0, 0, [], f"{seq_id} ended before its next decode step.")

    def _answer_from_recording(self, seq_id: str, sample: DecodeSample) -> None:
        from minivllm.runtime.attention.xray import recorded_trace

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


class AttentionRecorder:
    """Emits where the last tokens of a step look, while somebody asked for it.

    For every scheduled sequence `attention.mass`, the share of each block. For one sequence also
    `attention.tokens`, the share of each token: for all sequences, the events would be large.
    """

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self.active = False
        self._seq_id: str | None = None
        self._layer: int | None = None
        self._head: int | None = None

    def record(
        self, on: bool, seq_id: str | None = None, layer: int | None = None, head: int | None = None
    ) -> None:
        """See `LLMEngine.record_attention_mass`."""
        self.active, self._seq_id, self._layer, self._head = on, seq_id, layer, head

    def watch(self, plan: SchedulerOutput) -> tuple[bool, TokenWatch | None]:
        """Whether to measure the blocks' shares, and of which sequence the tokens' shares."""
        if not (self.active and self._bus.active):
            return False, None
        names = [item.sequence.seq_id for item in plan.scheduled]
        index = names.index(self._seq_id) if self._seq_id in names else 0
        return True, TokenWatch(index, self._layer, self._head)

    def emit(self, plan: SchedulerOutput, result: StepResult) -> None:
        """Emit what was measured in a step, or in a piece of it."""
        for item, mass in zip(plan.scheduled, result.attention_mass, strict=True):
            self._bus.emit(ev.AttentionMass, item.sequence.seq_id, mass)
        found = result.token_attention
        if found is not None:
            self._bus.emit(
                ev.TokenAttention,
                plan.scheduled[found.watch.index].sequence.seq_id,
                [round(weight, 6) for weight in found.weights],
                found.watch.layer,
                found.watch.head,
                found.num_layers,
                found.num_heads,
            )


def _is_unfinished(seq_id: str, requests: Mapping[str, Request]) -> bool:
    request = requests.get(seq_id.rpartition(".")[0])
    return request is not None and any(
        sequence.seq_id == seq_id and not sequence.status.is_finished
        for sequence in request.sequences
    )
