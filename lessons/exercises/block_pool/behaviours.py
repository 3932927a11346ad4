"""What a block pool must do: random operations on a pool alone, then the whole engine on it.

After each operation the pool's whole state is told, so that a mistake shows where it is made and
not three operations later.
"""

from collections.abc import Callable, Iterator
from typing import Any

from minivllm.lessons.checker.cases.behaviour import behaviour
from minivllm.lessons.checker.cases.draw import Draw
from minivllm.lessons.checker.cases.pool_operations import operations_of, tell_operations
from minivllm.lessons.checker.cases.traces import requests_with_samples, run_trace, trace

Case = dict[str, Any]


def only(*kinds: str) -> Callable[[Draw], Case]:
    """Cases of these operations."""
    return lambda draw: operations_of(draw, kinds)


@behaviour(
    "a block that is handed out has one owner",
    task=1,
    points=1,
    hint=(
        "What does the count of a block say right after pop_free_block has given it to its first"
        " owner?"
    ),
    cases=only("pop"),
)
def hands_out(case: Case) -> Iterator[str]:
    """Pops alone."""
    yield from tell_operations(case)


@behaviour(
    "a shared block is free when its last owner has left, and not before",
    task=2,
    points=2,
    hint=(
        "Follow one block with two owners: which of the two releases may put it on the free queue?"
    ),
    cases=only("pop", "touch", "release"),
)
def counts_owners(case: Case) -> Iterator[str]:
    """Owners come and go."""
    yield from tell_operations(case)


@behaviour(
    "a block without an owner cannot be released",
    task=3,
    points=1,
    hint=(
        "A second release of the same block would put it on the free queue twice. Check before you"
        " change anything."
    ),
    cases=only("pop", "cache", "release", "release again", "touch"),
)
def refuses_double_frees(case: Case) -> Iterator[str]:
    """Releases of blocks that nobody owns, too."""
    yield from tell_operations(case)


@behaviour(
    "a free block keeps its name until it is handed out again",
    task=4,
    points=2,
    hint=(
        "Free is not evicted: compare what is cached after release with what is cached after the"
        " next pop_free_block."
    ),
    cases=only("pop", "cache", "release", "touch"),
    examples=100,
)
def keeps_names(case: Case) -> Iterator[str]:
    """Blocks get names, are freed, hit again, and reused."""
    yield from tell_operations(case)


@behaviour(
    "the engine serves random requests on it, event for event",
    task=5,
    points=2,
    hint=(
        "Open it with `minivllm exercise diff`: the first event that differs tells which of your"
        " methods was last to act."
    ),
    cases=trace,
    trace=True,
)
def serves(case: Case) -> Iterator[str]:
    """The whole engine."""
    yield from run_trace(case)


@behaviour(
    "the engine shares and copies blocks on it, event for event",
    task=5,
    points=2,
    hint=(
        "Several samples of one request own the same blocks: look at the counts at the step where"
        " they part."
    ),
    cases=lambda draw: trace(draw, requests_with_samples),
    trace=True,
)
def shares(case: Case) -> Iterator[str]:
    """The whole engine, with parallel samples."""
    yield from run_trace(case)
