"""Numbers of few bits: a right solution in another style; see test_unseen_solutions.py."""

import struct

from minivllm.lessons.shown.quantize import MIN_SCALE, Int8Head, Q4Block, quantize_head


# few-bits: the nearest value is searched for, and bytes are put together as numbers.
def quantize_block(weights):
    low, high = min(weights), max(weights)
    if low == high:
        return Q4Block(0.0, low, [0 for _ in weights])
    scale = (high - low) / 15
    quants = []
    for weight in weights:
        quants.append(min(range(16), key=lambda quant: abs(low + quant * scale - weight)))
    return Q4Block(scale, low, quants)


def dequantize_block(block):
    weights = []
    for quant in block.quants:
        weights.append(block.minimum + quant * block.scale)
    return weights


def pack_block(block):
    packed = bytearray(struct.pack("<e", block.scale))
    packed += struct.pack("<e", block.minimum)
    for index in range(16):
        packed.append(block.quants[index] + 16 * block.quants[index + 16])
    return bytes(packed)


def quantize_head_(numbers):
    largest = max(max(numbers), -min(numbers))
    scale = max(largest / 127, MIN_SCALE)
    steps = []
    for number in numbers:
        size = int(abs(number) / scale + 0.5)
        steps.append(size if number >= 0 else -size)
    return Int8Head(scale, steps)


class Int8Cache:
    def write(self, slot, heads):
        stored = [quantize_head(head) for head in heads]
        self.scales[slot] = [vector.scale for vector in stored]
        self.numbers[slot] = [vector.numbers for vector in stored]
