"""`IsolatingExecutor`: runs a plan through the model. If the model raises, runs it in pieces.

Each piece of a failed step is one sequence. A step can be repeated because no token has been
sampled yet, and the same tokens write the same keys and values into the same slots. Only a sequence
whose piece raises fails; the others continue as if nothing had happened.

- A sequence may read blocks that a failing sequence of the same plan should have written. Such a
  sequence is *stranded*: it is not run in this step, but preempted and recomputed.
- The plan's block copies may or may not have been made, so the first piece makes them again. If the
  step may have overwritten the source of a copy, the step cannot be repeated.

If the device has stopped working, or too many sequences fail in a row, the model counts as broken:
the first exception is raised again, and the engine is dead.
"""

import logging
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from minivllm.core.block_pool import KVCacheBlock
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput
from minivllm.engine.runner import Runner
from minivllm.errors import InvariantError
from minivllm.runtime.step_result import StepResult, Watch

MAX_FAILED_IN_A_ROW = 3
"""How many sequences may fail in a row before the model counts as broken.

OpenAI's client sends a failing request three times by default. Such a request must not stop a
server.
"""

_log = logging.getLogger("minivllm.engine.engine")


class Part(NamedTuple):
    """A whole plan or a piece of one, and its result."""

    plan: SchedulerOutput
    result: StepResult


@dataclass(slots=True)
class Executed:
    parts: list[Part] = field(default_factory=list)
    """The whole plan. If the model raised: the pieces that succeeded, in plan order."""
    failed: list[Sequence] = field(default_factory=list)
    """Sequences on which the model raised, even when they ran alone."""
    stranded: list[Sequence] = field(default_factory=list)
    """Sequences that read unwritten blocks, and the new forks of these sequences."""
    unwritten: set[KVCacheBlock] = field(default_factory=set)
    """Blocks that the failed and stranded sequences should have written in this step."""

    @property
    def t_prepare(self) -> float:
        """Seconds spent on preparing the model's inputs."""
        return sum(part.result.t_prepare for part in self.parts)


class IsolatingExecutor:
    """Runs the plans of one engine and counts failures since the last success."""

    def __init__(self, runner: Runner, block_size: int) -> None:
        self._runner = runner
        self._block_size = block_size
        self._num_failed_in_a_row = 0

    def execute(self, plan: SchedulerOutput, watch: Watch) -> Executed:
        """Run `plan`, whole or in pieces. If the model is broken, raise its exception."""
        done = Executed()
        try:
            done.parts.append(Part(plan, self._runner.execute_model(plan, watch)))
        except (AssertionError, InvariantError):
            raise  # a bug in the engine, not in a request
        except Exception as error:
            if _overwrites_a_source(plan, self._block_size) or not self._runner.device_works():
                raise
            _log.exception("the model failed on a step; running its sequences one by one")
            # `decodes` and `tokens` are indices into the whole plan, so the pieces watch neither.
            # The tracer tries again in the next step.
            self._run_one_by_one(plan, replace(watch, decodes=(), tokens=None), done)
            if (
                not done.parts
                and self._num_failed_in_a_row + len(done.failed) > MAX_FAILED_IN_A_ROW
            ):
                raise error
        self._num_failed_in_a_row = (
            0 if done.parts else self._num_failed_in_a_row + len(done.failed)
        )
        return done

    def _run_one_by_one(self, plan: SchedulerOutput, watch: Watch, done: Executed) -> None:
        # A sequence can only hit blocks of sequences that were planned before it, so the writer of
        # a block runs before the readers.
        for item in plan.scheduled:
            if not done.unwritten.isdisjoint(item.sequence.block_table):
                done.stranded += [item.sequence, *item.sampling[1:]]
            else:
                # Only the first piece makes the copies. Later, the copies would overwrite values
                # that a piece has written.
                copies = [] if done.parts else plan.copies
                piece = SchedulerOutput(
                    plan.step, plan.budget, [item], item.num_tokens, copies=copies,
                    num_draft_tokens=len(item.draft_token_ids),
                )  # fmt: skip
                try:
                    done.parts.append(Part(piece, self._runner.execute_model(piece, watch)))
                    continue
                except Exception:
                    fields = {"sequence": item.sequence.seq_id}
                    _log.exception("the model failed on one sequence", extra={"fields": fields})
                    done.failed.append(item.sequence)
            done.unwritten.update(_blocks_written(item, self._block_size))


def _blocks_written(item: ScheduledSequence, block_size: int) -> set[KVCacheBlock]:
    table, end = item.sequence.block_table, item.start + item.num_tokens
    first = max(item.start, item.sequence.num_cached_tokens)
    return {table[position // block_size] for position in range(first, end)}


def _overwrites_a_source(plan: SchedulerOutput, block_size: int) -> bool:
    """Whether the step may have overwritten a block that one of its copies reads.

    A new owner of a block fills the block by a copy, or from the first slot on:

        step 7: A gives up block 3;  copy 3 -> 9;  B takes block 3 and writes it from slot 0

    If the model fails here, block 3 may hold A's or B's content, so the copy 3 -> 9 cannot be
    repeated. If block 3 kept its owner, that owner only appends, and the copy can be repeated: the
    copied slots stay the same, and the owner of block 9 writes the other slots before reading them.
    """
    taken = {copy.dst for copy in plan.copies}
    for item in plan.scheduled:
        table, end = item.sequence.block_table, item.start + item.num_tokens
        taken |= {
            table[at // block_size].block_id
            for at in range(item.start, end)
            if at % block_size == 0
        }
    return any(copy.src in taken for copy in plan.copies)
