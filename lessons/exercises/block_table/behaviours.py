"""Checks for block-table: a manager alone with two sequences, then the whole engine."""

from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.checker.cases.manager_operations import manager_of, manager_state, sequence_of
from minivllm.lessons.checker.cases.traces import draw_trace, requests_with_samples, run_trace


def _growth(draw: Draw) -> list[int]:
    more = draw.integer(0, 8)
    # Sometimes ask for fewer tokens than the table already holds.
    return [draw.integer(0, 1), more if more <= 5 else 5 - more]


def growths(draw: Draw) -> Case:
    return {
        "block_size": draw.integer(1, 4),
        "num_blocks": draw.integer(1, 12),
        "growths": draw.list_of(_growth, 1, 12),
    }


@behaviour(
    task=1,
    cases=lambda draw: {
        "block_size": draw.integer(1, 16),
        "tokens": draw.list_of(lambda d: d.integer(0, 100), 1, 8),
    },
)
def counts_blocks(case: Case) -> Lines:
    """the number of blocks is the number of tokens divided by the block size, rounded up

    Try the numbers around a whole block: 3, 4 and 5 tokens in blocks of 4.
    """
    manager = manager_of(1, case["block_size"])
    for tokens in case["tokens"]:
        size, number = case["block_size"], manager.num_blocks_for(tokens)
        yield f"in blocks of {size}: num_blocks_for({tokens}) is {number!r}"


@behaviour(task=2, cases=growths)
def grows(case: Case) -> Lines:
    """a table grows by the missing blocks, and not at all if too few are free

    The table already has some entries: start counting there.
    """
    manager, sequences, tokens = (
        manager_of(case["num_blocks"], case["block_size"]),
        [sequence_of(0), sequence_of(1)],
        [0, 0],
    )
    for which, more in case["growths"]:
        wanted = max(tokens[which] + more, 0)
        shortage = manager.allocate_slots(sequences[which], wanted)
        tokens[which] = tokens[which] if shortage else wanted
        yield (
            f"r{which} wants room for {wanted} tokens: {shortage or 'done'};"
            f" {manager_state(manager, sequences)}"
        )


@behaviour(task=3, cases=growths)
def gives_back(case: Case) -> Lines:
    """a sequence gives back all of its blocks, from the tail to the head

    Look at the order of the free queue after free, and at what is left in the table.
    """
    manager, sequences, tokens = (
        manager_of(case["num_blocks"], case["block_size"]),
        [sequence_of(0), sequence_of(1)],
        [0, 0],
    )
    for which, more in case["growths"]:
        wanted = max(tokens[which] + more, 0)
        if manager.allocate_slots(sequences[which], wanted) is None:
            tokens[which] = wanted
    for which, sequence in enumerate(sequences):
        manager.free(sequence)
        yield f"r{which} ends; {manager_state(manager, sequences)}"


@behaviour(task=4, cases=draw_trace, trace=True)
def serves(case: Case) -> Lines:
    """the engine emits the same events for random requests

    Run `minivllm exercise diff` and look at the block table where the first difference is.
    """
    yield from run_trace(case)


@behaviour(task=4, cases=lambda draw: draw_trace(draw, requests_with_samples), trace=True)
def serves_samples(case: Case) -> Lines:
    """the engine emits the same events for samples that share blocks

    When one of several samples ends, the others keep their blocks. Which entries do you give back?
    """
    yield from run_trace(case)
