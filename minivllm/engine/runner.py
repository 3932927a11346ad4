"""`Runner`: what the engine needs from a model; and `IsolatingRunner`, for a model that may raise.

If it raises, the plan runs again in pieces, one sequence each: the same tokens write the same keys
and values into the same slots. Only a sequence whose piece raises fails. A sequence that reads
blocks which a failing sequence should have written is *stranded*: it is preempted and recomputed.
If the device has stopped working, or too many sequences fail in a row, the model counts as broken:
its exception is raised, and the engine is dead.
"""

import logging
from collections.abc import Collection
from collections.abc import Sequence as Seq
from typing import Any, Protocol

from minivllm.core.block_pool import KVCacheBlock
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import BlockCopy, ScheduledSequence, SchedulerOutput
from minivllm.engine.watchers import TokenExplainer
from minivllm.errors import InvariantError, RequestFailedError, SamplingError
from minivllm.outputs import SampledToken
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch

MAX_FAILED_IN_A_ROW = 3
"""How many sequences may fail in a row before the model counts as broken.

OpenAI's client sends a failing request three times by default, which must not stop a server.
"""

_log = logging.getLogger("minivllm.engine.engine")


class Runner(Protocol):
    """What `ModelRunner` does. A call depends only on its arguments and the KV cache."""

    num_blocks: int
    """Number of blocks in the KV cache."""
    max_model_len: int
    kv_caches: Seq[Any]  # the KV cache as tensors of blocks; empty if there are none
    block_bytes: int
    fingerprint: str  # equal for runners that write the same keys and values

    def copy_blocks(self, copies: list[BlockCopy]) -> None:
        """Copy blocks of the KV cache, before the plan that has these copies is executed."""

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        """Run the plan's tokens through the model. After an exception, parts of the plan may run
        again, and must write the same keys and values.
        """

    def device_works(self) -> bool:
        """Whether the device still works, so that another `execute_model` can succeed."""

    def sample_tokens(
        self, sequences: list[Sequence], logits: Any, watched: Collection[Sequence] = ()
    ) -> Seq[SampledToken | SamplingError]:
        """Return for each sequence a token, or the reason why no token can be sampled.

        sequences: those of a plan that get a token, in plan order; logits: in its `StepResult`
        watched: the sequences whose tokens must have an explanation
        """


class _Pieces(list[StepResult]):
    """The results of a plan that ran in pieces, in place of its logits."""


class IsolatingRunner:
    """Runs plans with a `Runner`, so that a fault fails only the requests that it hits."""

    def __init__(self, plain: Runner, block_size: int, explainer: TokenExplainer) -> None:
        self.plain, self.copy_blocks = plain, plain.copy_blocks
        self._block_size, self._explainer = block_size, explainer
        self._num_failed_in_a_row = 0
        """Sequences that failed since the model last ran at least one sequence of a plan."""

    def execute_model(self, plan: SchedulerOutput, watch: Watch) -> StepResult:
        """See `Runner.execute_model`. Raises only if the model is broken, or the engine is."""
        try:
            result = self.plain.execute_model(plan, watch)
            self._num_failed_in_a_row = 0
        except Exception as error:
            self._raise_if_broken(error)
            _log.exception("the model failed on a step; running its sequences one by one")
            # Indices in a watch mean the whole plan. The tracer tries again in the next step.
            result = self._run_one_by_one(plan, watch._replace(decodes=(), tokens=None))
            if self._num_failed_in_a_row > MAX_FAILED_IN_A_ROW:
                raise
        return result

    def sample_tokens(
        self, sequences: list[Sequence], logits: Any
    ) -> Seq[SampledToken | SamplingError]:
        """See `Runner.sample_tokens`."""
        watched = self._explainer.explained(sequences)
        if not isinstance(logits, _Pieces):
            return self.plain.sample_tokens(sequences, logits, watched)
        tokens: list[SampledToken | SamplingError] = []
        for piece in logits:
            if own := piece.plan.sampling_sequences():
                tokens += self.plain.sample_tokens(own, piece.logits, watched)
        return tokens

    def _run_one_by_one(self, plan: SchedulerOutput, watch: Watch) -> StepResult:
        pieces, failed, stranded = _Pieces(), [], []
        # Blocks, and the sequence that failed to write them or what they depend on.
        unwritten: dict[KVCacheBlock, Sequence] = {}
        # A sequence can only hit blocks of sequences that were planned before it, so the writer of
        # a block runs before the readers.
        for item in plan.scheduled:
            sequence = item.sequence
            # Cached tokens are not written again.
            first = max(item.start, sequence.num_cached_tokens)
            own = sequence.block_table[first // self._block_size :]
            blame = next((unwritten[it] for it in sequence.block_table if it in unwritten), None)
            if blame is None:
                try:
                    pieces.append(self.plain.execute_model(_part_of(plan, [item]), watch))
                    continue
                except Exception as error:
                    self._raise_if_broken(error)
                    fields = {"sequence": sequence.seq_id}
                    _log.exception("the model failed on one sequence", extra={"fields": fields})
                    failed.append(blame := sequence)
            else:
                stranded += [(it, blame) for it in (sequence, *item.sampling[1:])]  # with its forks
            unwritten |= dict.fromkeys(own, blame)
        self._num_failed_in_a_row = 0 if pieces else self._num_failed_in_a_row + len(failed)
        return StepResult(
            _part_of(plan, [item for piece in pieces for item in piece.plan.scheduled]),
            pieces,
            sum(piece.t_prepare for piece in pieces),
            [judged for piece in pieces for judged in piece.prompt_logprobs],
            [mass for piece in pieces for mass in piece.attention_mass],
            errors=[
                (sequence.request, RequestFailedError(f"The model failed on {sequence.seq_id}."))
                for sequence in failed
            ],
            stranded=stranded[::-1],
            unwritten=unwritten,
        )

    def _raise_if_broken(self, error: Exception) -> None:
        """Raise an error that is not about one sequence: a bug of ours, or a device that is gone."""
        if isinstance(error, (AssertionError, InvariantError)) or not self.plain.device_works():
            raise error


def _part_of(plan: SchedulerOutput, items: list[ScheduledSequence]) -> SchedulerOutput:
    num_tokens = sum(item.num_tokens for item in items)
    num_drafts = sum(len(item.draft_token_ids) for item in items)
    return SchedulerOutput(plan.step, plan.budget, items, num_tokens, num_draft_tokens=num_drafts)
