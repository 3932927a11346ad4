"""`execute`: a plan through the model; if the model raises, each scheduled sequence alone, to find whom it raises for.

Nothing has been sampled yet, and keys and values that are written again are the same in the same slots. So a step can be
tried again in pieces: who can be run alone goes on as if nothing had happened, who cannot fails. If nobody can (the
device is lost), what the model raised first is raised, and the engine is dead.

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
    from minivllm.stepper import Runner

_log = logging.getLogger("minivllm.engine")


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


def execute(runner: Runner, plan: SchedulerOutput, block_size: int) -> Executed:
    """Run `plan`, whole or in pieces. Raises what the model raised if no piece can be run."""
    done = Executed()
    try:
        _run(runner, plan, done)
        return done
    except (AssertionError, InvariantError):
        raise  # a bug of the engine, and nobody's request
    except Exception as error:
        if len(plan.scheduled) == 1 or _overwrites_a_source(plan, block_size):
            raise
        _log.exception("the model failed on a step; its sequences are run one by one")
        runner.watched_decodes = []  # indices into the whole plan; who watches asks again
        _run_one_by_one(runner, plan, block_size, done)
        if not done.parts:
            raise error
        return done


def _run_one_by_one(runner: Runner, plan: SchedulerOutput, block_size: int, done: Executed) -> None:
    # Writers stand before those who share their blocks: who is admitted finds only what was planned before it.
    for item in plan.scheduled:
        if not done.unwritten.isdisjoint(item.sequence.block_table):
            done.stranded += [item.sequence, *item.sampling[1:]]
        else:
            # Once one piece is done the copies are; made again they would undo what was written into them.
            copies = [] if done.parts else plan.copies
            piece = SchedulerOutput(plan.step, plan.budget, [item], item.num_tokens, copies=copies)
            try:
                _run(runner, piece, done)
                continue
            except Exception:
                _log.exception("the model fails on one sequence", extra={"fields": {"sequence": item.sequence.seq_id}})
                done.failed.append(item.sequence)
        done.unwritten.update(_blocks_written(item, block_size))


def _run(runner: Runner, plan: SchedulerOutput, done: Executed) -> None:
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
