"""`Runner`: what the engine needs of a model.

`minivllm.runtime.model_runner.ModelRunner` is the real one; tests, exercises and benchmarks have
stand-ins without a model. A call depends on its arguments and the KV cache alone: nothing of an
earlier call has to be read or reset.
"""

from collections.abc import Sequence as Seq
from typing import Any, Protocol

from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.errors import SamplingError
from minivllm.outputs import SampledToken
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch


class Runner(Protocol):
    """Runs plans through a model and draws tokens."""

    num_blocks: int
    """Blocks in its KV cache."""
    max_model_len: int

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        """Run the plan's tokens through the model.

        If this raises, it may be called again with parts of the plan: what it writes is the same
        each time.
        """

    def device_works(self) -> bool:
        """Whether calling `execute_model` again after it has raised can help."""

    def sample_tokens(
        self, sequences: list[Sequence], logits: Any
    ) -> Seq[SampledToken | SamplingError]:
        """A token for each of `sequences`, or why it has none.

        `logits`: of a `StepResult`; `sequences`: those that sample in its plan, in plan order.
        """
