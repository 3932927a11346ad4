"""`IsolatingExecutor`: a plan through the model; if the model raises, each sequence alone, to find whom it raises for.

Nothing has been sampled yet, and keys and values that are written again are the same in the same slots. So a step can be
tried again in pieces: who can be run alone goes on as if nothing had happened, who cannot fails.

One who stands alone in its step fails as well, and this cannot tell a bad request from a broken model. But a broken model
must not look healthy: if the device has stopped working, or too many fail in a row and nobody succeeds between them,
what the model raised first is raised, and the engine is dead.

Knows the plan and the runner; ending and preempting is left to the stepper. Two things are easy to get wrong:
  - A sequence of the same plan may read blocks that the failing one was to write. It cannot be run, and has done nothing wrong.
  - Block copies are part of a step, and nobody knows whether they were made before the model raised. They are made again with
    the first piece, unless the step may have written over what they copied from; then the step is lost.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from minivllm.core.block_pool import KVCacheBlock
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput
from minivllm.errors import InvariantError

if TYPE_CHECKING:
    from minivllm.engine.stepper import Runner

MAX_FAILED_IN_A_ROW = 3
"""Sequences that may fail, with no success between, before it is the model and not they.

As often as OpenAI's client sends one request that gets a 500, if nobody tells it otherwise: one bad request, alone on the
server, must not end it.
"""

_log = logging.getLogger("minivllm.engine.engine")


@dataclass(slots=True)
class Executed:
    """What became of a plan."""

    parts: list[tuple[SchedulerOutput, Any]] = field(default_factory=list)
    """Pieces of the plan, in its order, with the logits of each; the whole plan, if all went well."""
    failed: list[Sequence] = field(default_factory=list)
    """The model raises for them."""
    stranded: list[Sequence] = field(default_factory=list)
    """They, and those just forked from them, read what the failed ones should have written."""
    unwritten: set[KVCacheBlock] = field(default_factory=set)
    """The blocks that the failed and the stranded were to write in this step."""
    t_prepare: float = 0.0
    prompt_logprobs: list[Any] = field(default_factory=list)
    attention_mass: list[tuple[Sequence, list[float]]] = field(default_factory=list)


class IsolatingExecutor:
    """Runs the plans of one engine, and remembers how many sequences have failed since one succeeded."""

    def __init__(self, runner: Runner, block_size: int) -> None:
        self._runner = runner
        self._block_size = block_size
        self._num_failed_in_a_row = 0

    def execute(self, plan: SchedulerOutput) -> Executed:
        """Run `plan`, whole or in pieces. Raises what the model raised if it is the model that is broken."""
        done = Executed()
        try:
            self._run(plan, done)
        except (AssertionError, InvariantError):
            raise  # a bug of the engine, and nobody's request
        except Exception as error:
            if _overwrites_a_source(plan, self._block_size) or not self._runner.device_works():
                raise
            _log.exception("the model failed on a step; its sequences are run one by one")
            self._runner.watched_decodes = []  # indices into the whole plan; who watches asks again
            self._run_one_by_one(plan, done)
            if not done.parts and self._num_failed_in_a_row + len(done.failed) > MAX_FAILED_IN_A_ROW:
                raise error
        self._num_failed_in_a_row = 0 if done.parts else self._num_failed_in_a_row + len(done.failed)
        return done

    def _run_one_by_one(self, plan: SchedulerOutput, done: Executed) -> None:
        # Writers stand before those who share their blocks: who is admitted finds only what was planned before it.
        for item in plan.scheduled:
            if not done.unwritten.isdisjoint(item.sequence.block_table):
                done.stranded += [item.sequence, *item.sampling[1:]]
            else:
                # Once one piece is done the copies are; made again they would undo what was written into them.
                copies = [] if done.parts else plan.copies
                piece = SchedulerOutput(plan.step, plan.budget, [item], item.num_tokens, copies=copies)
                try:
                    self._run(piece, done)
                    continue
                except Exception:
                    fields = {"sequence": item.sequence.seq_id}
                    _log.exception("the model fails on one sequence", extra={"fields": fields})
                    done.failed.append(item.sequence)
            done.unwritten.update(_blocks_written(item, self._block_size))

    def _run(self, plan: SchedulerOutput, done: Executed) -> None:
        runner = self._runner
        done.parts.append((plan, runner.execute_model(plan)))
        done.t_prepare += runner.t_prepare
        done.prompt_logprobs += runner.prompt_logprobs
        if runner.record_attention_mass:
            sequences = [item.sequence for item in plan.scheduled]
            done.attention_mass += zip(sequences, runner.attention_mass, strict=True)


def _blocks_written(item: ScheduledSequence, block_size: int) -> set[KVCacheBlock]:
    table, end = item.sequence.block_table, item.start + item.num_tokens
    first = max(item.start, item.sequence.num_cached_tokens)
    return {table[position // block_size] for position in range(first, end)}


def _overwrites_a_source(plan: SchedulerOutput, block_size: int) -> bool:
    """Whether a block was given up, copied from and taken anew, all in this step.

    Who takes a block anew fills it by a copy or from its first slot. A source that its owner goes on writing keeps what
    was copied; the rest of the copy is written by the copy's owner before it is read.
    """
    taken = {copy.dst for copy in plan.copies}
    for item in plan.scheduled:
        table, end = item.sequence.block_table, item.start + item.num_tokens
        taken |= {table[at // block_size].block_id for at in range(item.start, end) if at % block_size == 0}
    return any(copy.src in taken for copy in plan.copies)
