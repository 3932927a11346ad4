"""`Runner`: what the engine needs from a model; and `Isolation`, for a model that has raised.

Then the plan runs again in pieces, one sequence each: the same tokens write the same keys and
values into the same slots. Only a sequence whose piece raises fails. A sequence that reads blocks
which a failing sequence should have written is *stranded*: it is preempted and recomputed. If the
device has stopped working, or too many sequences fail in a row, the model counts as broken: its
exception is raised, and the engine is dead.
"""

import logging
from collections.abc import Collection
from collections.abc import Sequence as Seq
from typing import Any, Protocol

from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import BlockCopy, SchedulerOutput
from minivllm.errors import InvariantError, SamplingError
from minivllm.outputs import SampledToken
from minivllm.runtime.step_result import WATCH_NOTHING, Failures, StepResult, Watch

MAX_FAILED_IN_A_ROW = 3
"""How many sequences may fail in a row before the model counts as broken.

OpenAI's client sends a failing request three times by default. Such a request must not stop a
server.
"""

_log = logging.getLogger("minivllm.engine.engine")


class Runner(Protocol):
    """Runs plans through a model and samples tokens, as `ModelRunner` does.

    A call depends only on its arguments and the KV cache, not on earlier calls.
    """

    num_blocks: int
    """Number of blocks in the KV cache."""
    max_model_len: int

    def copy_blocks(self, copies: list[BlockCopy]) -> None:
        """Copy blocks of the KV cache, before the plan that has these copies is executed."""

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        """Run the plan's tokens through the model.

        After an exception, the engine may call this again with parts of the plan, which must write
        the same keys and values each time.
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


class Isolation:
    """Runs plans on which the model raised again, in pieces."""

    def __init__(self, runner: Runner, block_size: int) -> None:
        self.num_failed_in_a_row = 0
        """Sequences that failed since the last success. A plan that runs as a whole resets it."""
        self._runner = runner
        self._block_size = block_size

    def run_one_by_one(self, plan: SchedulerOutput, watch: Watch, error: Exception) -> StepResult:
        """Run each sequence of `plan` alone. `error`: what the model raised on the whole plan; it
        is raised again if the model is broken, or if the error is a bug in the engine.
        """
        is_bug = isinstance(error, (AssertionError, InvariantError))
        if is_bug or not self._runner.device_works():
            raise error
        _log.exception("the model failed on a step; running its sequences one by one")
        # Indices in a watch mean the whole plan. The tracer tries again in the next step.
        result = self._run_pieces(plan, watch._replace(decodes=(), tokens=None))
        num_failed = self.num_failed_in_a_row + len(result.failures.failed)
        self.num_failed_in_a_row = 0 if result.failures.ran.scheduled else num_failed
        if self.num_failed_in_a_row > MAX_FAILED_IN_A_ROW:
            raise error
        return result

    def _run_pieces(self, plan: SchedulerOutput, watch: Watch) -> StepResult:
        results: list[StepResult] = []
        failures = Failures(SchedulerOutput(plan.step, plan.budget), [], [], [], set())
        ran, batches, failed, stranded, unwritten = failures
        # A sequence can only hit blocks of sequences that were planned before it, so the writer of
        # a block runs before the readers.
        for item in plan.scheduled:
            num_drafts = len(item.draft_token_ids)
            piece = SchedulerOutput(
                plan.step, plan.budget, [item], item.num_tokens, num_draft_tokens=num_drafts
            )
            try:
                if unwritten.isdisjoint(item.sequence.block_table):
                    results.append(self._runner.execute_model(piece, watch))
                    ran.scheduled.append(item)
                    ran.num_draft_tokens += num_drafts
                    batches.append((piece.sampling_sequences(), results[-1].logits))
                    continue
                stranded += [item.sequence, *item.sampling[1:]]
            except Exception:
                fields = {"sequence": item.sequence.seq_id}
                _log.exception("the model failed on one sequence", extra={"fields": fields})
                failed.append(item.sequence)
            # Cached tokens are not written again.
            first = max(item.start, item.sequence.num_cached_tokens)
            unwritten.update(item.sequence.block_table[first // self._block_size :])
        return StepResult(
            None,
            sum(result.t_prepare for result in results),
            [judged for result in results for judged in result.prompt_logprobs],
            [mass for result in results for mass in result.attention_mass],
            failures=failures,
        )
