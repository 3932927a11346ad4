"""Checks for block-pool: random operations on a pool alone, then the whole engine.

The pool's whole state is reported after each operation, so a mistake shows where it is made.
"""

from collections.abc import Callable

from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.checker.cases.pool_operations import operations_of, tell_operations
from minivllm.lessons.checker.cases.traces import draw_trace, requests_with_samples, run_trace


def only(*kinds: str) -> Callable[[Draw], Case]:
    return lambda draw: operations_of(draw, kinds)


@behaviour(task=1, cases=only("pop"))
def hands_out(case: Case) -> Lines:
    """a block that is handed out has one owner

    What is the block's ref_cnt right after pop_free_block has given it to its first owner?
    """
    yield from tell_operations(case)


@behaviour(task=2, cases=only("pop", "touch", "release"))
def counts_owners(case: Case) -> Lines:
    """a shared block becomes free when its last owner releases it, and not before

    Follow one block with two owners. Which of the two releases may put it into the free queue?
    """
    yield from tell_operations(case)


@behaviour(task=3, cases=only("pop", "cache", "release", "release again", "touch"))
def refuses_double_frees(case: Case) -> Lines:
    """a block without an owner cannot be released

    A second release of the same block would put it into the free queue twice. Check before you
    change anything.
    """
    yield from tell_operations(case)


@behaviour(task=4, cases=only("pop", "cache", "release", "touch"), examples=100)
def keeps_names(case: Case) -> Lines:
    """a free block keeps its hash until it is handed out again

    A free block is not evicted. Compare the cached blocks after release with those after the next
    pop_free_block.
    """
    yield from tell_operations(case)


@behaviour(task=5, cases=draw_trace, trace=True)
def serves(case: Case) -> Lines:
    """the engine emits the same events for random requests

    Open it with `minivllm exercise diff`: the first event that differs shows which of your methods
    ran last.
    """
    yield from run_trace(case)


@behaviour(task=5, cases=lambda draw: draw_trace(draw, requests_with_samples), trace=True)
def shares(case: Case) -> Lines:
    """the engine emits the same events when it shares and copies blocks

    Several samples of one request own the same blocks. Look at the counts at the step where the
    samples diverge.
    """
    yield from run_trace(case)
