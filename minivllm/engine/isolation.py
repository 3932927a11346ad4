"""`IsolatingExecutor`: runs a plan through the model; if that raises, one sequence at a time.

Nothing has been sampled yet, and running a token again writes the same keys and values into the
same slots. So a failed step can be repeated in pieces. A sequence that runs alone continues as if
nothing had happened; one that raises again fails.

- A sequence may read blocks that a failing sequence of the same plan should have written. It is
  *stranded*: it cannot run in this step, so it is preempted and recomputed.
- The plan's block copies may or may not have been made. The first piece makes them again, unless
  the step may have overwritten a source; then the step cannot be repeated.

If the device has stopped working, or too many sequences fail in a row, the model itself is broken:
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

OpenAI's client sends a failing request three times by default; that alone must not stop a server.
"""

_log = logging.getLogger("minivllm.engine.engine")


class Part(NamedTuple):
    """A piece of a plan, and its result."""

    plan: SchedulerOutput
    result: StepResult


@dataclass(slots=True)
class Executed:
    parts: list[Part] = field(default_factory=list)
    """The whole plan; or, if the model raised, the pieces that ran, in plan order."""
    failed: list[Sequence] = field(default_factory=list)
    """Sequences on which the model raises."""
    stranded: list[Sequence] = field(default_factory=list)
    """Sequences, with their new forks, that read blocks of the failed ones."""
    unwritten: set[KVCacheBlock] = field(default_factory=set)
    """Blocks that failed and stranded sequences should have written in this step."""

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
            # `watch.decodes` are indices into the whole plan. The tracer tries again in the next
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
        # A sequence can only hit blocks that were planned before it, so writers come before
        # readers.
        for item in plan.scheduled:
            if not done.unwritten.isdisjoint(item.sequence.block_table):
                done.stranded += [item.sequence, *item.sampling[1:]]
            else:
                # Only the first piece makes the copies. A second time, they would overwrite new
                # values.
                copies = [] if done.parts else plan.copies
                piece = SchedulerOutput(
                    plan.step, plan.budget, [item], item.num_tokens, copies=copies
                )
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

    A block gets a new owner, which fills it by a copy or from its first slot:

        step 7: A gives up block 3;  copy 3 -> 9;  B takes block 3 and writes it from slot 0

    If the model fails here, block 3 may hold A's or B's content, so 3 -> 9 cannot be repeated. It
    can be repeated if the owner of block 3 only appends: the copied slots stay the same, and the
    owner of block 9 writes the others before it reads them.
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
