"""`Runner`: what the engine needs from a model.

`minivllm.runtime.model_runner.ModelRunner` implements it; tests, exercises and benchmarks use
substitutes without a model. A call depends only on its arguments and the KV cache, not on earlier
calls.
"""

from collections.abc import Sequence as Seq
from typing import Any, Protocol

from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.errors import SamplingError
from minivllm.outputs import SampledToken
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch


class Runner(Protocol):
    """Runs plans through a model and samples tokens."""

    num_blocks: int
    """Blocks in its KV cache."""
    max_model_len: int

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        """Run the plan's tokens through the model.

        If this raises, it may be called again with parts of the plan; it writes the same values
        each time.
        """

    def device_works(self) -> bool:
        """Whether `execute_model` may succeed if it is called again after raising."""

    def sample_tokens(
        self, sequences: list[Sequence], logits: Any
    ) -> Seq[SampledToken | SamplingError]:
        """Return a token for each of `sequences`, or the reason why it has none.

        sequences: those that sample in a plan, in plan order
        logits:    from the `StepResult` of that plan
        """
