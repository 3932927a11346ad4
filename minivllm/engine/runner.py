"""`Runner`: what the engine needs from a model.

`minivllm.runtime.model_runner.ModelRunner` implements this protocol; tests, exercises and
benchmarks use substitutes without a model. A call depends only on its arguments and the KV cache,
not on earlier calls.
"""

from collections.abc import Collection
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
    """Number of blocks in the KV cache."""
    max_model_len: int

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        """Run the plan's tokens through the model.

        After an exception, the engine may call this again with parts of the plan. The same part
        must write the same keys and values each time.
        """

    def device_works(self) -> bool:
        """Whether the device still works, so that another `execute_model` can succeed."""

    def sample_tokens(
        self, sequences: list[Sequence], logits: Any, watched: Collection[Sequence] = ()
    ) -> Seq[SampledToken | SamplingError]:
        """Return for each sequence a token, or the reason why no token can be sampled.

        sequences: the sequences of a plan that get a token, in plan order
        logits:    the logits in the `StepResult` of that plan
        watched:   the sequences whose tokens must have an explanation
        """
