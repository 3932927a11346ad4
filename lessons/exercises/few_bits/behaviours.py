"""Checks for few-bits: blocks and heads of a prime number of steps, their bytes, a cache in use.

With a prime range, no number is in the middle of two quants, where either would be right.
"""

from typing import Any

from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour, nearly
from minivllm.lessons.shown import quantize

RANGES = (7, 11, 13, 17, 29, 41, 97)
close = nearly(1e-6)


def _numbers(numbers: Any) -> str:
    return "| " + " ".join(f"{number:.9g}" for number in numbers)


def _weights(draw: Draw, least: int = 0, most: int = 8) -> Case:
    """Weights from `start` to `start + range` units, with both ends among them."""
    span = draw.choice(RANGES)
    between = draw.list_of(lambda d: d.integer(0, 97) % (span + 1), least, most)
    where = draw.integer(0, len(between))
    start, unit = draw.integer(-60, 20), draw.choice([1.0, 0.25, 0.001953125])
    steps = [*between[:where], span, *between[where:], 0]
    return {"weights": [(start + step) * unit for step in steps]}


def _quantized(case: Case) -> tuple[Any, str]:
    block = quantize.quantize_block(list(case["weights"]))
    return block, _numbers([block.scale, block.minimum, *block.quants])


@behaviour(task=1, cases=_weights, examples=80)
def quantizes(case: Case) -> Lines:
    """the range of a block has fifteen steps, and each weight the nearest

    Which quants do the smallest and the largest weight get? How long is one step then?
    """
    block = quantize.quantize_block(list(case["weights"]))
    yield f"weights {case['weights']}: quants {list(block.quants)}"
    yield f"scale {block.scale:.6g}, minimum {block.minimum:.6g}"


@behaviour(
    task=1,
    cases=lambda draw: {"weights": [draw.integer(-9, 9) / 4] * draw.integer(1, 32)},
    examples=25,
)
def keeps_constants(case: Case) -> Lines:
    """a block of equal weights comes back as it was

    All weights are equal, so the range is 0. What would you divide by?
    """
    block, numbers = _quantized(case)
    yield f"weights {case['weights']}: scale, minimum and quants {numbers}"
    yield f"read back {[block.scale * quant + block.minimum for quant in block.quants]}"


@behaviour(
    task=2,
    cases=lambda draw: {
        "scale": draw.integer(0, 12) / 8,
        "minimum": draw.integer(-40, 9) / 4,
        "quants": draw.list_of(lambda d: d.integer(0, 15), 1, 8),
    },
    agree=close,
)
def dequantizes(case: Case) -> Lines:
    """quants are steps above the minimum

    What does quant 0 stand for, and what does quant 1?
    """
    yield f"{case} is {_numbers(quantize.dequantize_block(quantize.Q4Block(**case)))}"


@behaviour(task=2, cases=_weights)
def is_near(case: Case) -> Lines:
    """what is read back is at most half a step off

    Quantize and read back. Which weight is off by more than half the scale?
    """
    weights = case["weights"]
    block = quantize.quantize_block(list(weights))
    half = block.scale * 0.5000001
    for weight, read in zip(weights, quantize.dequantize_block(block), strict=True):
        yield f"{weight} of {weights}: within half a step {abs(weight - read) <= half}"


@behaviour(
    task=3,
    cases=lambda draw: {
        "scale": draw.integer(0, 40) / 16,
        "minimum": draw.integer(-80, 20) / 16,
        "quants": draw.list_of(lambda d: d.integer(0, 15), 32, 32),
    },
)
def packs(case: Case) -> Lines:
    """a block is twenty bytes, in the order of a GGUF file

    Compare byte by byte. Which two quants share byte 4, the first one of the quants?
    """
    data = bytes(quantize.pack_block(quantize.Q4Block(**case)))
    yield f"{len(data)} bytes, scale and minimum {data[:4].hex()}"
    yield f"the quants {case['quants']} are {data[4:].hex()}"


def _head(draw: Draw) -> list[float]:
    """The largest absolute value is a prime number of units, with either sign."""
    span = draw.choice(RANGES)
    others = draw.list_of(lambda d: d.integer(0, 194) % (2 * span + 1) - span, 0, 5)
    unit = draw.choice([1.0, 0.125, 0.0009765625])
    return [step * unit for step in [draw.choice([-span, span]), *others]]


@behaviour(task=4, cases=lambda draw: {"numbers": _head(draw)}, examples=80, agree=close)
def quantizes_heads(case: Case) -> Lines:
    """the largest absolute value of a head is 127 or -127, and 0.0 is 0

    Which number decides the scale, and how many steps is it away from 0?
    """
    scale, numbers = quantize.quantize_head(list(case["numbers"]))
    yield f"numbers {case['numbers']}: {list(numbers)}"
    yield f"scale {_numbers([scale])}"


@behaviour(
    task=4,
    cases=lambda draw: {
        "numbers": [step * 1e-6 for step in draw.list_of(lambda d: d.integer(0, 40), 1, 4)]
        if draw.boolean()
        else [0.0] * draw.integer(1, 4)
    },
    examples=30,
)
def quantizes_zeros(case: Case) -> Lines:
    """zeros and tiny numbers have the smallest scale

    A head of zeros has a largest value of 0. Which scale must it get all the same?
    """
    scale, numbers = quantize.quantize_head(list(case["numbers"]))
    yield f"numbers {case['numbers']}: scale {scale:.6g}, numbers {list(numbers)}"


def _writes(draw: Draw) -> Case:
    num_heads = draw.integer(1, 2)
    token = lambda d: [d.integer(0, 2), [_head(d) for _ in range(num_heads)]]  # noqa: E731
    return {"num_heads": num_heads, "writes": draw.list_of(token, 1, 5)}


@behaviour(task=5, cases=_writes, agree=close)
def caches(case: Case) -> Lines:
    """each token is read back with its own scales, whatever else is written

    Find the first slot that is read differently. Was it written in this step? Which scale has it,
    and which numbers decided that scale?
    """
    # Slots are written again, as those of a freed block are.
    cache = quantize.Int8Cache(3, case["num_heads"])
    written: set[int] = set()
    for slot, heads in case["writes"]:
        cache.write(slot, [list(head) for head in heads])
        written.add(slot)
        yield f"{heads} is written to slot {slot}"
        for other in sorted(written):
            for head, numbers in enumerate(cache.read(other)):
                yield f"slot {other}, head {head} {_numbers(numbers)}"
