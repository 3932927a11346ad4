"""`AttentionRecorder`: emits where the last tokens of a step look, while somebody asked for it.

For every scheduled sequence `attention.mass`, the share of each block. For one sequence also
`attention.tokens`, the share of each token: all sequences would make large events.
"""

from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.runtime.step_result import StepResult, TokenWatch


class AttentionRecorder:
    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._on = False
        self._seq_id: str | None = None
        self._layer: int | None = None
        self._head: int | None = None

    def record(
        self, on: bool, seq_id: str | None = None, layer: int | None = None, head: int | None = None
    ) -> None:
        """See `LLMEngine.record_attention_mass`."""
        self._on, self._seq_id, self._layer, self._head = on, seq_id, layer, head

    def watch(self, plan: SchedulerOutput) -> tuple[bool, TokenWatch | None]:
        """Return whether to measure the blocks' shares, and of which sequence the tokens' shares."""
        if not (self._on and self._bus.active):
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
