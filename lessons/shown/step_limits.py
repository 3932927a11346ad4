"""What limits a step: memory capacity, memory bandwidth or arithmetic, as a short calculation.

    capacity    how many bytes fit into the memory      how many sequences can run together
    bandwidth   how many bytes are read per second      how long a step of few tokens takes
    arithmetic  how many operations per second          how long a step of many tokens takes

Only the large terms count: reading weights, keys and values, and multiplying by the weights. The
operations of attention, and everything that is written, are left out.

Source: Williams et al. 2009, "Roofline: An Insightful Visual Performance Model".
"""

from typing import Literal, NamedTuple

Limit = Literal["capacity", "bandwidth", "arithmetic"]


class ModelSizes(NamedTuple):
    num_weights: int
    """Weights that each pass reads."""
    bytes_per_weight: float
    """4 for float32, 2 for bfloat16, 0.625 for Q4_1."""
    num_layers: int
    num_heads: int
    """Query heads of a layer."""
    num_kv_heads: int
    """Heads of a layer that have keys and values; several query heads share one."""
    head_size: int
    """Numbers in a head."""
    bytes_per_number: int
    """Bytes of one number in the KV cache."""

    @property
    def weight_bytes(self) -> float:
        return self.num_weights * self.bytes_per_weight


class MachineRates(NamedTuple):
    memory_bytes: float
    """Room for weights and the KV cache together."""
    bytes_per_second: float
    operations_per_second: float


class StepWork(NamedTuple):
    """The size of one step."""

    num_tokens: int
    """Tokens that go through the model."""
    num_kv_tokens: int
    """Tokens whose keys and values are read."""


def kv_bytes_per_token(model: ModelSizes) -> int:
    """Return the bytes of a token in the KV cache: keys and values, in all layers."""
    return 2 * model.num_layers * model.num_kv_heads * model.head_size * model.bytes_per_number


def num_sequences_that_fit(model: ModelSizes, machine: MachineRates, context: int) -> int:
    """Return how many sequences of `context` tokens fit into the memory beside the weights."""
    free = max(machine.memory_bytes - model.weight_bytes, 0)
    return int(free // (context * kv_bytes_per_token(model)))


def decode_work(batch: int, context: int) -> StepWork:
    """Return the work of a decode step of `batch` sequences, each with `context` tokens.

    The new token is one of the `context` tokens. Prefixes are not shared.
    """
    return StepWork(batch, batch * context)


def prefill_work(prompt: int) -> StepWork:
    """Return the work of a step that computes one whole prompt."""
    return StepWork(prompt, prompt)


def bytes_read(model: ModelSizes, work: StepWork) -> float:
    """Return the bytes of weights, keys and values that a step reads. Each is read once."""
    return model.weight_bytes + work.num_kv_tokens * kv_bytes_per_token(model)


def operations(model: ModelSizes, work: StepWork) -> int:
    """Return the operations of a step.

    Each weight is used once for each token: one multiplication and one addition.
    """
    return 2 * model.num_weights * work.num_tokens


def arithmetic_intensity(model: ModelSizes, work: StepWork) -> float:
    """Return the operations for each byte that the step reads."""
    return operations(model, work) / bytes_read(model, work)


def shortest_step(model: ModelSizes, machine: MachineRates, work: StepWork) -> float:
    """Return the seconds that a step takes at least. It reads and computes at the same time."""
    return max(
        bytes_read(model, work) / machine.bytes_per_second,
        operations(model, work) / machine.operations_per_second,
    )


def limit_of(model: ModelSizes, machine: MachineRates, batch: int, context: int) -> Limit:
    """Return what stops a decode step of this batch from being larger or faster.

    capacity    the batch does not fit into the memory
    bandwidth   it fits, and reading takes longer than computing
    arithmetic  it fits, and computing takes at least as long as reading
    """
    if batch > num_sequences_that_fit(model, machine, context):
        return "capacity"
    balance = machine.operations_per_second / machine.bytes_per_second
    intensity = arithmetic_intensity(model, decode_work(batch, context))
    return "bandwidth" if intensity < balance else "arithmetic"
