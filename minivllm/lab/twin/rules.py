"""The intended differences. For each, vLLM's rule, which minivllm can follow in a twin run.

A rule explains a difference if the difference is gone when minivllm follows the rule. Then the
decisions after it are compared, too.
"""

from collections.abc import Callable
from dataclasses import dataclass

from minivllm.core.kv_cache_manager import ComputedBlocks, Shortage
from minivllm.core.request import RequestStatus, Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import SchedulerOutput


@dataclass(frozen=True, slots=True)
class Intended:
    id: str
    decision: int
    sentence: str
    follow: Callable[[Scheduler], None] | None = None
    """Changes a scheduler of ours, so that it follows vLLM's rule."""

    def __str__(self) -> str:
        return f"Intended ({self.id}, decision {self.decision}): {self.sentence}"


def _compute_the_last_block(scheduler: Scheduler) -> None:
    manager = scheduler.kv_cache_manager
    longest = manager._longest_cached_prefix

    def without_the_last(sequence: Sequence) -> ComputedBlocks:
        found = longest(sequence)
        start = found.num_cached_tokens - manager.block_size
        is_whole = found.num_cached_tokens == sequence.num_tokens
        return ComputedBlocks(found.blocks[:-1], start, start) if is_whole else found

    manager._longest_cached_prefix = without_the_last


def _plan_nothing_more(scheduler: Scheduler) -> None:
    make_room = scheduler._make_room

    def and_stop(plan: SchedulerOutput, sequence: Sequence, num_tokens: int) -> Shortage | None:
        shortage = make_room(plan, sequence, num_tokens)
        if sequence.status is RequestStatus.PREEMPTED:
            plan.budget = sum(item.num_tokens for item in plan.scheduled)
        return shortage

    scheduler._make_room = and_stop


def _register_with_the_plan(scheduler: Scheduler) -> None:
    make_room, register = scheduler._make_room, scheduler.kv_cache_manager.cache_full_blocks

    def after_all(plan: SchedulerOutput, sequence: Sequence, num_tokens: int) -> Shortage | None:
        for item in plan.scheduled:  # before one of them is the victim
            register(item.sequence, item.start + item.num_tokens)
        return make_room(plan, sequence, num_tokens)

    scheduler._make_room = after_all


RULES = (
    Intended(
        "full-hit", 18,
        "All blocks of this prompt are cached. vLLM computes at least one token of a prompt and"
        " finds only whole blocks, so it computes the last block again. minivllm finds all blocks"
        " and computes one token.",
        _compute_the_last_block,
    ),
    Intended(
        "goes-on", 3,
        "With priorities, a request can preempt itself. vLLM 0.32 then plans nothing more in this"
        " step. minivllm goes on with the other running requests, as vLLM 0.33 does.",
        _plan_nothing_more,
    ),
    Intended(
        "late-hashes", 3,
        "With priorities, vLLM can preempt a request that it has planned in the same step. The"
        " blocks that this request was to fill are already in vLLM's prefix cache, although nothing"
        " is written into them, so they are freed at the tail. minivllm registers a block after the"
        " last preemption of the step, so it frees them at the head.",
        _register_with_the_plan,
    ),
)  # fmt: skip

DRAFTS = Intended(
    "drafts", 110,
    "This trace has drafts, and both sides run without them. vLLM plans drafts with their request,"
    " so that they can delay or preempt others. minivllm plans them last, from the budget and the"
    " blocks that are left.",
)  # fmt: skip
