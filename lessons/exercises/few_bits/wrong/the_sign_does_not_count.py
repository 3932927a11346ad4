"""The largest number decides the scale, without regard to negative ones."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.quantize import LARGEST_INT8, MIN_SCALE, Int8Head

HINT = "If the head is [0.5, -2.0], how many steps below 0 is -2.0? Does that fit into int8?"


def quantize_head(numbers: Seq[float]) -> Int8Head:
    scale = max(max(numbers) / LARGEST_INT8, MIN_SCALE)
    return Int8Head(scale, [max(-LARGEST_INT8, round(number / scale)) for number in numbers])
