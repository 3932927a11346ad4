"""`Runner`: what the engine needs from a model; and `IsolatingRunner`, whose model fails only on
the sequences that make it fail.

If the model raises, the plan runs again in pieces, one sequence each: the same tokens write the
same keys and values into the same slots. Only a sequence whose piece raises fails. A sequence that
reads blocks which a failing sequence should have written is *stranded*: it is preempted and
recomputed. If the device has stopped working, or too many sequences fail in a row, the model counts
as broken: its exception is raised, and the engine is dead.
"""

import logging
from collections.abc import Collection
from collections.abc import Sequence as Seq
from itertools import chain, islice
from typing import Any, Protocol

from minivllm.core.block_pool import KVCacheBlock
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import BlockCopy, ScheduledSequence, SchedulerOutput
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


class _Pieces(list[tuple[int, Any]]):
    """The logits of a plan that ran in pieces: of each piece, the number of rows, and the rows."""


class IsolatingRunner:
    """Runs the plans of one engine and counts failures since the last success."""

    def __init__(self, runner: Runner, block_size: int) -> None:
        self._runner = runner
        self._block_size = block_size
        self._num_failed_in_a_row = 0

    def execute_model(self, plan: SchedulerOutput, watch: Watch) -> StepResult:
        """Run `plan`, whole or in pieces. If the model is broken, raise its exception."""
        if plan.copies:
            self._runner.copy_blocks(plan.copies)
        try:
            result = self._runner.execute_model(plan, watch)
        except (AssertionError, InvariantError):
            raise  # a bug in the engine, not in a request
        except Exception as error:
            if not self._runner.device_works():
                raise
            _log.exception("the model failed on a step; running its sequences one by one")
            result = self._run_one_by_one(plan, watch)
            self._num_failed_in_a_row += len(result.failures.failed)
            too_many = self._num_failed_in_a_row > MAX_FAILED_IN_A_ROW
            if too_many and not result.failures.ran.scheduled:
                raise error
        if result.failures.ran is None or result.failures.ran.scheduled:
            self._num_failed_in_a_row = 0
        return result

    def sample_tokens(
        self, sequences: list[Sequence], logits: Any, watched: Collection[Sequence]
    ) -> Seq[SampledToken | SamplingError]:
        """See `Runner.sample_tokens`. Logits of several pieces are sampled piece by piece."""
        # Runners of tests and exercises need no third argument if nothing is watched.
        extra = (watched,) if watched else ()
        if not isinstance(logits, _Pieces):
            return self._runner.sample_tokens(sequences, logits, *extra)
        rows, sample = iter(sequences), self._runner.sample_tokens
        drawn = [sample(list(islice(rows, num_rows)), piece, *extra) for num_rows, piece in logits]
        return list(chain.from_iterable(drawn))

    def _run_one_by_one(self, plan: SchedulerOutput, watch: Watch) -> StepResult:
        # Indices in a watch mean the whole plan. The tracer tries again in the next step.
        watch = watch._replace(decodes=(), tokens=None)
        results: list[StepResult] = []
        pieces = _Pieces()
        failures = Failures(SchedulerOutput(plan.step, plan.budget), [], [], set())
        ran, failed, stranded, unwritten = failures
        # A sequence can only hit blocks of sequences that were planned before it, so the writer of
        # a block runs before the readers.
        for item in plan.scheduled:
            if not unwritten.isdisjoint(item.sequence.block_table):
                stranded += [item.sequence, *item.sampling[1:]]
                unwritten |= self._blocks_written(item)
                continue
            num_drafts = len(item.draft_token_ids)
            piece = SchedulerOutput(
                plan.step, plan.budget, [item], item.num_tokens, num_draft_tokens=num_drafts
            )
            try:
                results.append(self._runner.execute_model(piece, watch))
            except Exception:
                fields = {"sequence": item.sequence.seq_id}
                _log.exception("the model failed on one sequence", extra={"fields": fields})
                failed.append(item.sequence)
                unwritten |= self._blocks_written(item)
                continue
            ran.scheduled.append(item)
            ran.num_draft_tokens += num_drafts
            if num_rows := len(piece.sampling_sequences()):
                pieces.append((num_rows, results[-1].logits))
        return StepResult(
            pieces,
            sum(result.t_prepare for result in results),
            [judged for result in results for judged in result.prompt_logprobs],
            [mass for result in results for mass in result.attention_mass],
            failures=failures,
        )

    def _blocks_written(self, item: ScheduledSequence) -> set[KVCacheBlock]:
        """The blocks that this step writes; cached tokens are not written again."""
        first = max(item.start, item.sequence.num_cached_tokens)
        return set(item.sequence.block_table[first // self._block_size :])
