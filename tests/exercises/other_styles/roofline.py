"""Times are compared, and not intensities."""

from minivllm.lessons.sketches.step_limits import (
    StepWork,
    bytes_read,
    decode_work,
    kv_bytes_per_token,
    num_sequences_that_fit,
    operations,
)


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
