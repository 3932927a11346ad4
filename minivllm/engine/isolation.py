"""`IsolatingRunner`: a runner whose model fails only on the sequences that make it fail.

If the model raises, the plan runs again in pieces, one sequence each. That is possible because no
token has been sampled yet, and the same tokens write the same keys and values into the same slots.
Only a sequence whose piece raises fails; the others continue as if nothing had happened.

- A sequence may read blocks that a failing sequence of the same plan should have written. Such a
  sequence is *stranded*: it is not run in this step, but preempted and recomputed.
- The plan's block copies may or may not have been made, so the first piece makes them again. If a
  preempted sequence gave up a source, and its new owner may have overwritten it, the step cannot be
  repeated.

If the device has stopped working, or too many sequences fail in a row, the model counts as broken:
the first exception is raised again, and the engine is dead.
"""

import logging
from collections.abc import Collection
from collections.abc import Sequence as Seq
from dataclasses import replace
from itertools import islice
from typing import Any

from minivllm.core.block_pool import KVCacheBlock
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput
from minivllm.engine.runner import Runner
from minivllm.errors import InvariantError, SamplingError
from minivllm.outputs import SampledToken
from minivllm.runtime.step_result import WATCH_NOTHING, Failures, StepResult, Watch

MAX_FAILED_IN_A_ROW = 3
"""How many sequences may fail in a row before the model counts as broken.

OpenAI's client sends a failing request three times by default. Such a request must not stop a
server.
"""

_log = logging.getLogger("minivllm.engine.engine")


class _Pieces(list[tuple[int, Any]]):
    """The logits of a plan that ran in pieces: of each piece, the number of rows, and the rows."""


class IsolatingRunner:
    """Runs the plans of one engine and counts failures since the last success."""

    def __init__(self, runner: Runner, block_size: int) -> None:
        self._runner = runner
        self._block_size = block_size
        self._num_failed_in_a_row = 0

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        """Run `plan`, whole or in pieces. If the model is broken, raise its exception."""
        try:
            result = self._runner.execute_model(plan, watch)
        except (AssertionError, InvariantError):
            raise  # a bug in the engine, not in a request
        except Exception as error:
            lost = plan.preempted and _overwrites_a_source(plan, self._block_size)
            if lost or not self._runner.device_works():
                raise
            _log.exception("the model failed on a step; running its sequences one by one")
            result = self._run_one_by_one(plan, watch)
            self._num_failed_in_a_row += len(result.failures.failed)
            if result.failures.ran.scheduled:
                self._num_failed_in_a_row = 0
            if self._num_failed_in_a_row > MAX_FAILED_IN_A_ROW:
                raise error
            return result
        self._num_failed_in_a_row = 0
        return result

    def sample_tokens(
        self, sequences: list[Sequence], logits: Any, watched: Collection[Sequence] = ()
    ) -> Seq[SampledToken | SamplingError]:
        """See `Runner.sample_tokens`. Logits of several pieces are sampled piece by piece."""
        # Runners of tests and exercises need no third argument if nothing is watched.
        extra = (watched,) if watched else ()
        if not isinstance(logits, _Pieces):
            return self._runner.sample_tokens(sequences, logits, *extra)
        rows = iter(sequences)
        return [
            token
            for num_rows, piece in logits
            for token in self._runner.sample_tokens(list(islice(rows, num_rows)), piece, *extra)
        ]

    def _run_one_by_one(self, plan: SchedulerOutput, watch: Watch) -> StepResult:
        # Indices in a watch mean the whole plan. The tracer tries again in the next step.
        watch = replace(watch, decodes=(), tokens=None)
        results: list[StepResult] = []
        pieces = _Pieces()
        failures = Failures(SchedulerOutput(plan.step, plan.budget), [], [], set())
        ran, failed, stranded, unwritten = failures
        # A sequence can only hit blocks of sequences that were planned before it, so the writer of
        # a block runs before the readers.
        for item in plan.scheduled:
            if not unwritten.isdisjoint(item.sequence.block_table):
                stranded += [item.sequence, *item.sampling[1:]]
                unwritten.update(_blocks_written(item, self._block_size))
                continue
            # Only the first piece makes the copies. Later, the copies would overwrite values that a
            # piece has written.
            piece = SchedulerOutput(
                plan.step, plan.budget, [item], item.num_tokens,
                copies=[] if results else plan.copies, num_draft_tokens=len(item.draft_token_ids),
            )  # fmt: skip
            try:
                results.append(self._runner.execute_model(piece, watch))
            except Exception:
                fields = {"sequence": item.sequence.seq_id}
                _log.exception("the model failed on one sequence", extra={"fields": fields})
                failed.append(item.sequence)
                unwritten.update(_blocks_written(item, self._block_size))
                continue
            ran.scheduled.append(item)
            ran.num_draft_tokens += piece.num_draft_tokens
            if num_rows := len(piece.sampling_sequences()):
                pieces.append((num_rows, results[-1].logits))
        return StepResult(
            pieces,
            sum(result.t_prepare for result in results),
            [judged for result in results for judged in result.prompt_logprobs],
            [mass for result in results for mass in result.attention_mass],
            failures=failures,
        )


def _blocks_written(item: ScheduledSequence, block_size: int) -> set[KVCacheBlock]:
    table, end = item.sequence.block_table, item.start + item.num_tokens
    first = max(item.start, item.sequence.num_cached_tokens)
    return {table[position // block_size] for position in range(first, end)}


def _overwrites_a_source(plan: SchedulerOutput, block_size: int) -> bool:
    """Whether the step may have overwritten a block that one of its copies reads: only a new owner
    fills a block by a copy, or writes its first slot.
    """
    taken = {copy.dst for copy in plan.copies}
    for item in plan.scheduled:
        table, end = item.sequence.block_table, item.start + item.num_tokens
        # The blocks whose first slot is written: from the first that begins at `start` or later.
        first = -(-item.start // block_size)
        taken |= {block.block_id for block in table[first : -(-end // block_size)]}
    return any(copy.src in taken for copy in plan.copies)
