"""`PhasedStep`: runs a step one phase at a time, for somebody who looks at the engine in between.

It calls the same three methods as `EngineCore.step`, and keeps the plan and the result meanwhile.
"""

from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.engine.core import EngineCore
from minivllm.events import types as ev
from minivllm.outputs import RequestOutput
from minivllm.runtime.step_result import StepResult


class PhasedStep:
    def __init__(self, core: EngineCore) -> None:
        self.next_phase: ev.Phase = "schedule"
        self._core = core
        self._plan: SchedulerOutput | None = None
        self._result: StepResult | None = None

    def run_phase(self) -> list[RequestOutput] | None:
        """Run the next phase. Returns the outputs if the step ends with this phase, else None."""
        core = self._core
        if self.next_phase == "schedule":
            self._plan = core.schedule()
            self.next_phase = "execute"
            if self._plan.scheduled:
                return None
        if self.next_phase == "execute":
            self._result = core.execute(self._plan)
            self.next_phase = "sample"
            if self._plan.scheduled:
                self._preview(self._plan, self._result)
                return None
        outputs = core.sample(self._plan, self._result)
        self.next_phase = "schedule"
        return outputs

    def finish(self) -> list[RequestOutput]:
        """Run the rest of the step, without a preview."""
        if self.next_phase == "execute":
            self._result = self._core.execute(self._plan)
            self.next_phase = "sample"
        return self.run_phase()

    def _preview(self, plan: SchedulerOutput, result: StepResult) -> None:
        """Emit the candidates of watched sequences. A draw has no state, so it can run twice."""
        sequences = plan.sampling_sequences()
        watched = self._core.watchers.explained(sequences)
        # Rows after drafts may mean nothing, so preview only the sequences' own rows.
        rows = [
            row
            for row, sequence in enumerate(sequences)
            if isinstance(sequence, Sequence) and sequence in watched
        ]
        # A plan that ran in pieces, because the model failed, has no preview.
        if rows and result.failures.ran is None:
            own = [sequences[row] for row in rows]
            drawn = self._core.runner.sample_tokens(own, result.logits[rows], watched)
            self._core.watchers.explainer.preview(list(zip(own, drawn, strict=True)))
