"""Kernels and numbers: right solutions in another style; see test_unseen_solutions.py."""

import torch

from minivllm.lessons.shown.quantize import MIN_SCALE, Int8Head, Q4Block, quantize_head
from minivllm.lessons.sketches.step_limits import (
    StepWork,
    bytes_read,
    decode_work,
    kv_bytes_per_token,
    num_sequences_that_fit,
    operations,
)


# roofline: times are compared, and not intensities.
def kv_bytes_per_token_(model):
    numbers_of_a_layer = sum([model.num_kv_heads * model.head_size] * 2)
    return numbers_of_a_layer * model.bytes_per_number * model.num_layers


def num_sequences_that_fit_(model, machine, context):
    if machine.memory_bytes <= model.weight_bytes:
        return 0
    bytes_of_one = kv_bytes_per_token(model) * context
    return int((machine.memory_bytes - model.weight_bytes) / bytes_of_one)


def decode_work_(batch, context):
    return StepWork(num_tokens=batch, num_kv_tokens=sum(context for _ in range(batch)))


def bytes_read_(model, work):
    return sum([model.weight_bytes, kv_bytes_per_token(model) * work.num_kv_tokens])


def operations_(model, work):
    return (model.num_weights + model.num_weights) * work.num_tokens


def arithmetic_intensity(model, work):
    for_each_token = 2 * model.num_weights
    return for_each_token * work.num_tokens / bytes_read(model, work)


def shortest_step(model, machine, work):
    reading = bytes_read(model, work) / machine.bytes_per_second
    computing = operations(model, work) / machine.operations_per_second
    return computing if computing > reading else reading


def limit_of(model, machine, batch, context):
    if num_sequences_that_fit(model, machine, context) < batch:
        return "capacity"
    work = decode_work(batch, context)
    reading = bytes_read(model, work) / machine.bytes_per_second
    computing = operations(model, work) / machine.operations_per_second
    return "arithmetic" if computing >= reading else "bandwidth"


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
    import struct

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
        self.scales[slot] = [one.scale for one in stored]
        self.numbers[slot] = [one.numbers for one in stored]


# split-kv: heads repeated, exponentials written out, and two weights for two parts.
def attend_in_steps(query, key, value, scale, is_causal=False, mask=None):
    group = query.shape[1] // key.shape[1]
    keys = key.float().repeat_interleave(group, dim=1)
    values = value.float().repeat_interleave(group, dim=1)
    scores = torch.einsum("bhqd,bhtd->bhqt", query.float(), keys) * scale
    if is_causal:
        rows = torch.arange(scores.shape[2], device=query.device)[:, None]
        columns = torch.arange(scores.shape[3], device=query.device)[None, :]
        scores = torch.where(columns <= rows, scores, float("-inf"))
    if mask is not None:
        scores = scores + mask.float()
    largest = scores.amax(dim=-1, keepdim=True)
    weights = torch.exp(scores - largest)
    total = weights.sum(dim=-1, keepdim=True)
    output = torch.einsum("bhqt,bhtd->bhqd", weights / total, values)
    return output.to(query.dtype), (largest + total.log()).squeeze(-1)


def merge(output, log_sum_exp, rows, other, other_lse):
    mine = log_sum_exp[rows]
    largest = torch.maximum(mine, other_lse)
    mine_weight, other_weight = torch.exp(mine - largest), torch.exp(other_lse - largest)
    total = mine_weight + other_weight
    both = output[rows].float() * mine_weight[..., None] + other.float() * other_weight[..., None]
    output[rows] = (both / total[..., None]).to(output.dtype)
    log_sum_exp[rows] = largest + total.log()
