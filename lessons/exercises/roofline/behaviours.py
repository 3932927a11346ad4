"""Checks for roofline: small models and machines of any proportions, one quantity after the other.

All sizes are whole numbers or binary fractions, so that no result depends on rounding.
"""

from typing import Any

from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour, nearly
from minivllm.lessons.shown import step_limits

close = nearly(1e-6)


def _model(draw: Draw) -> Case:
    kv_heads = draw.integer(1, 3)
    return {
        "num_weights": 64 * draw.integer(1, 40),
        "bytes_per_weight": draw.choice([2, 4, 1, 0.625, 0.5]),
        "num_layers": draw.integer(1, 4),
        "num_heads": kv_heads * draw.integer(1, 4),
        "num_kv_heads": kv_heads,
        "head_size": draw.integer(1, 8),
        "bytes_per_number": draw.choice([2, 4, 1]),
    }


def _case(draw: Draw) -> Case:
    """A model, a machine whose memory is near what the batch needs, and a step."""
    return {
        "model": _model(draw),
        "batch": draw.integer(1, 12),
        "context": draw.integer(1, 16),
        "room": draw.choice([draw.integer(0, 14), draw.integer(0, 14), -1]),
        "spare": draw.integer(0, 20) / 4,
        "balance": draw.choice([1, 0.25, 4, 16, 64, 0]),
        "bandwidth": draw.choice([16, 1, 128]),
    }


def _model_of(case: Case) -> Any:
    return step_limits.ModelSizes(**case["model"])


def _machine_of(case: Case) -> Any:
    """A machine with room for `room` sequences and a bit more; with -1 not even for the weights.

    A balance of 0 stands for that of the largest decode step, which then takes a second either way.
    What a token takes is written here once more: the student's function may be wrong.
    """
    model = _model_of(case)
    numbers = model.num_layers * model.num_kv_heads * model.head_size
    sequence = 2 * numbers * model.bytes_per_number * case["context"]
    memory = model.weight_bytes + case["room"] * sequence + min(case["spare"], sequence - 1)
    bandwidth, arithmetic = case["bandwidth"], case["balance"] * case["bandwidth"]
    if not arithmetic:
        bandwidth = model.weight_bytes + case["batch"] * sequence
        arithmetic = 2 * model.num_weights * case["batch"]
    return step_limits.MachineRates(max(memory, 1), bandwidth, arithmetic)


def _work_of(case: Case) -> Any:
    return step_limits.StepWork(case["batch"], case["batch"] * case["context"])


@behaviour(task=1, cases=lambda draw: {"model": _model(draw)})
def token_bytes(case: Case) -> Lines:
    """a token takes the bytes of its keys and values in all layers

    What does one layer keep of a token? How many heads, and how many numbers in each?
    """
    model = _model_of(case)
    yield f"{model}: {step_limits.kv_bytes_per_token(model)} bytes for a token"


@behaviour(task=2, cases=_case)
def capacity(case: Case) -> Lines:
    """what the weights leave is shared by whole sequences

    How many bytes are left after the weights, and how many does one sequence need?
    """
    model, machine = _model_of(case), _machine_of(case)
    number = step_limits.num_sequences_that_fit(model, machine, case["context"])
    yield f"{model}, {machine}, contexts of {case['context']} tokens: {number} fit"


@behaviour(
    task=3,
    cases=lambda draw: {"batch": draw.integer(1, 12), "context": draw.integer(1, 16)},
    examples=25,
)
def decodes(case: Case) -> Lines:
    """a decode step computes a token and reads a context for each sequence

    How many new tokens has each sequence, and how many tokens does its query look back at?
    """
    work = step_limits.decode_work(**case)
    yield f"batch {case['batch']}, contexts of {case['context']} tokens: {tuple(work)}"


@behaviour(task=4, cases=_case, agree=close)
def reading(case: Case) -> Lines:
    """a step reads the weights once, and keys and values of all its contexts

    What does a step read for one sequence? Which part is read again for the second one?
    """
    model, work = _model_of(case), _work_of(case)
    yield f"{model}, {work}: bytes | {step_limits.bytes_read(model, work):.9g}"


@behaviour(task=5, cases=_case, agree=close)
def computing(case: Case) -> Lines:
    """each weight is multiplied and added for each token

    How often is a weight used in this step, and how many operations is that each time?
    """
    model, work = _model_of(case), _work_of(case)
    yield f"{model}, {work}: operations | {step_limits.operations(model, work):.9g}"


@behaviour(task=6, cases=_case, agree=close)
def intensity(case: Case) -> Lines:
    """the intensity is operations for each byte

    The name of the axis says it: operations per byte.
    """
    model, work = _model_of(case), _work_of(case)
    intensity = step_limits.arithmetic_intensity(model, work)
    yield f"{model}, {work}: operations per byte | {intensity:.9g}"


@behaviour(task=7, cases=_case, agree=close)
def times(case: Case) -> Lines:
    """a step takes as long as the slower of reading and computing

    Compute both times. When one of them is over, is the step over?
    """
    model, machine, work = _model_of(case), _machine_of(case), _work_of(case)
    seconds = step_limits.shortest_step(model, machine, work)
    yield f"{model}, {machine}, {work}: seconds | {seconds:.9g}"


@behaviour(task=8, cases=_case, examples=150)
def limits(case: Case) -> Lines:
    """the limit of each batch is named

    First: does the batch fit? If it does, on which side of the balance is the step?
    """
    model, machine, context = _model_of(case), _machine_of(case), case["context"]
    for batch in range(1, case["batch"] + 1):
        limit = step_limits.limit_of(model, machine, batch, context)
        yield f"{model}, {machine}, batch {batch}, contexts of {context} tokens: {limit}"
