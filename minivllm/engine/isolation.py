"""`IsolatingExecutor`: runs a plan through the model; if the model raises, one sequence at a time.

Nothing has been sampled yet, and running a token again writes the same keys and values into the
same slots. So a step that failed can be tried again in pieces: each sequence that runs alone
continues as if nothing had happened, and each one that raises again fails.

Two kinds of sequences and copies need care:

- A sequence may read blocks that a failing sequence of the same plan was to write. It is stranded:
  it cannot run in this step, but it has done nothing wrong, so it is preempted and computed again.
- Nobody knows whether the plan's block copies were made before the model raised. They are made
  again with the first piece, unless the step may have overwritten what they copy from; then the
  step is lost.

If the device has stopped working, or too many sequences fail in a row, the model is broken and not
the requests: what it raised first is raised again, and the engine is dead.
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
"""Sequences that may fail, with no success between them, before the model counts as broken.

OpenAI's client sends a request that gets a 500 three times by default: one bad request, alone on
the server, must not end it.
"""

_log = logging.getLogger("minivllm.engine.engine")


class Part(NamedTuple):
    """A piece of a plan that the model has run."""

    plan: SchedulerOutput
    result: StepResult


@dataclass(slots=True)
class Executed:
    """What became of a plan."""

    parts: list[Part] = field(default_factory=list)
    """The whole plan; or, if the model raised, the pieces that ran, in the order of the plan."""
    failed: list[Sequence] = field(default_factory=list)
    """Sequences for which the model raises."""
    stranded: list[Sequence] = field(default_factory=list)
    """Sequences, with their new forks, that read what the failed ones should have written."""
    unwritten: set[KVCacheBlock] = field(default_factory=set)
    """Blocks that the failed and the stranded sequences were to write in this step."""

    @property
    def t_prepare(self) -> float:
        """Seconds spent on laying out batches."""
        return sum(part.result.t_prepare for part in self.parts)


class IsolatingExecutor:
    """Runs the plans of one engine. Counts how many sequences have failed since one succeeded."""

    def __init__(self, runner: Runner, block_size: int) -> None:
        self._runner = runner
        self._block_size = block_size
        self._num_failed_in_a_row = 0

    def execute(self, plan: SchedulerOutput, watch: Watch) -> Executed:
        """Run `plan`, whole or in pieces. Raises what the model raised if the model is broken."""
        done = Executed()
        try:
            done.parts.append(Part(plan, self._runner.execute_model(plan, watch)))
        except (AssertionError, InvariantError):
            raise  # a bug of the engine, not of a request
        except Exception as error:
            if _overwrites_a_source(plan, self._block_size) or not self._runner.device_works():
                raise
            _log.exception("the model failed on a step; its sequences are run one by one")
            # `watch.decodes` are indices into the whole plan; the tracer asks again in the next
            # step.
            self._run_one_by_one(plan, replace(watch, decodes=()), done)
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
        # Writers come before the sequences that share their blocks: an admission finds only blocks
        # planned before it.
        for item in plan.scheduled:
            if not done.unwritten.isdisjoint(item.sequence.block_table):
                done.stranded += [item.sequence, *item.sampling[1:]]
            else:
                # The first piece makes the copies; made again, they would undo what was written
                # into them.
                copies = [] if done.parts else plan.copies
                piece = SchedulerOutput(
                    plan.step, plan.budget, [item], item.num_tokens, copies=copies
                )
                try:
                    done.parts.append(Part(piece, self._runner.execute_model(piece, watch)))
                    continue
                except Exception:
                    fields = {"sequence": item.sequence.seq_id}
                    _log.exception("the model fails on one sequence", extra={"fields": fields})
                    done.failed.append(item.sequence)
            done.unwritten.update(_blocks_written(item, self._block_size))


def _blocks_written(item: ScheduledSequence, block_size: int) -> set[KVCacheBlock]:
    table, end = item.sequence.block_table, item.start + item.num_tokens
    first = max(item.start, item.sequence.num_cached_tokens)
    return {table[position // block_size] for position in range(first, end)}


def _overwrites_a_source(plan: SchedulerOutput, block_size: int) -> bool:
    """Whether the step may have overwritten a block that one of its copies reads.

    A new owner fills a block by a copy, or from its first slot on:

        step 7: A gives up block 3;  copy 3 -> 9;  B takes block 3 and writes it from slot 0

    After a failure in the middle of that, block 3 may hold A's content or B's, so 3 -> 9 cannot be
    made again. If the owner of block 3 only continues to write it, the slots that were copied stay
    as they are, and the owner of block 9 writes the others before it reads them.
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
