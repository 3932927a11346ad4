"""How many GPUs a model needs in vLLM: tensor, pipeline and data parallel sizes.

Each GPU must hold its share of the weights, and of the keys and values of one sequence of maximum
length. The memory for both is what vLLM may use, minus 1 GiB for activations and CUDA graphs. One
copy of the model gets as few GPUs as possible, because splitting costs communication in every
layer. The remaining GPUs get further copies (data parallel).

The tensor size must divide the number of attention heads. If the tensor size exceeds the number of
key heads, vLLM gives each GPU a whole key head, and the cache per GPU no longer shrinks.
"""

import math
from dataclasses import dataclass

from minivllm.errors import ConfigError
from minivllm.runtime.model.model_config import ModelConfig
from minivllm.runtime.model.weight_map import weight_shards

GIB = 2**30
RESERVED_BYTES = GIB
"""Estimated bytes on each GPU for activations and CUDA graphs. vLLM measures them at startup."""


@dataclass(frozen=True, slots=True)
class Hardware:
    num_gpus: int
    """Number of GPUs in all machines together."""
    num_machines: int
    gpu_memory_gib: float
    gpu_memory_utilization: float

    def __post_init__(self) -> None:
        if self.num_gpus < 1:
            raise ConfigError(f"--gpus must be at least 1; got {self.num_gpus}.")
        if self.num_machines < 1 or self.num_gpus % self.num_machines:
            raise ConfigError(
                f"--machines must be at least 1 and divide the {self.num_gpus} GPUs evenly; got"
                f" {self.num_machines}."
            )
        if not 0 < self.gpu_memory_gib < math.inf:
            raise ConfigError(
                f"--gpu-memory must be the GiB of one GPU, above 0; got {self.gpu_memory_gib}."
            )

    @property
    def gpus_per_machine(self) -> int:
        return self.num_gpus // self.num_machines

    @property
    def usable_bytes(self) -> int:
        """Bytes of one GPU that weights and KV cache can use."""
        return int(self.gpu_memory_gib * GIB * self.gpu_memory_utilization) - RESERVED_BYTES


@dataclass(frozen=True, slots=True)
class Sizes:
    """vLLM's three parallel sizes; their product is the number of GPUs."""

    tensor: int
    pipeline: int
    data: int
    bytes_per_gpu: int
    """Bytes that the weights and one sequence of maximum length need on a GPU."""

    @property
    def gpus_per_copy(self) -> int:
        return self.tensor * self.pipeline


def choose_sizes(
    model: ModelConfig,
    hardware: Hardware,
    *,
    item_size: int,
    max_model_len: int,
    tensor: int | None = None,
    pipeline: int | None = None,
) -> Sizes:
    """Choose the sizes with the fewest GPUs per copy, then the most tensor parallelism.

    tensor, pipeline: sizes fixed by the user; None lets this function choose

    Raises `ConfigError` with the reason if nothing fits.
    """
    if tensor is not None and (reason := _cannot_cut_heads(model, tensor)):
        raise ConfigError(reason)
    if pipeline is not None and not 1 <= pipeline <= model.num_hidden_layers:
        raise ConfigError(
            f"--pipeline-parallel-size must be from 1 to the model's {model.num_hidden_layers}"
            f" layers; got {pipeline}."
        )
    cuts = [
        (t, p)
        for t in ([tensor] if tensor is not None else _divisors(hardware.num_gpus))
        for p in ([pipeline] if pipeline is not None else _divisors(hardware.num_gpus))
        if hardware.num_gpus % (t * p) == 0
        and not _cannot_cut_heads(model, t)
        and p <= model.num_hidden_layers
        and (t <= hardware.gpus_per_machine or tensor is not None)
        and _copies_fill_machines(t * p, hardware)
    ]
    if not cuts:
        raise ConfigError(
            f"{hardware.num_gpus} GPU(s) in {hardware.num_machines} machine(s) cannot be divided"
            f" into groups of {tensor or 1} times {pipeline or 1}: choose sizes whose product"
            " divides the number of GPUs."
        )
    sizes = [
        Sizes(
            t, p, hardware.num_gpus // (t * p), bytes_per_gpu(model, t, p, item_size, max_model_len)
        )
        for t, p in cuts
    ]
    fitting = [size for size in sizes if size.bytes_per_gpu <= hardware.usable_bytes]
    if not fitting:
        best = min(sizes, key=lambda size: size.bytes_per_gpu)
        raise ConfigError(
            f"Weights and one sequence of {max_model_len} tokens need"
            f" {best.bytes_per_gpu / GIB:.1f} GiB on each GPU (tensor {best.tensor}, pipeline"
            f" {best.pipeline}), where {max(hardware.usable_bytes, 0) / GIB:.1f} are usable: use"
            " more or larger GPUs, a 16-bit --dtype or a smaller --max-model-len."
        )
    # Prefer even pipelines: an uneven one waits for its longest stage.
    return min(
        fitting,
        key=lambda s: (s.gpus_per_copy, model.num_hidden_layers % s.pipeline != 0, -s.tensor),
    )


def bytes_per_gpu(
    model: ModelConfig, tensor: int, pipeline: int, item_size: int, max_model_len: int
) -> int:
    """Return the bytes of the weights and of one longest sequence's cache on the fullest GPU."""
    layers = math.ceil(model.num_hidden_layers / pipeline)
    by_layer = outside = 0
    for name, shard in weight_shards(model).items():
        if name.startswith("model.layers."):
            by_layer += math.prod(shard.shape)
        else:
            outside += math.prod(
                shard.shape
            )  # embeddings and head: the first and last pipeline stage
    weights = (by_layer * layers / model.num_hidden_layers + outside) / tensor
    kv_heads = max(1, model.num_key_value_heads // tensor)
    cache = 2 * layers * kv_heads * model.head_size * max_model_len
    return int(item_size * (weights + cache))


def _cannot_cut_heads(model: ModelConfig, tensor: int) -> str | None:
    heads, kv_heads = model.num_attention_heads, model.num_key_value_heads
    good = [t for t in _divisors(heads) if kv_heads % t == 0 or t % kv_heads == 0]
    good = [t for t in good if model.intermediate_size % t == 0]
    if tensor in good:
        return None
    return (
        f"--tensor-parallel-size {tensor} does not divide the model ({heads} attention heads,"
        f" {kv_heads} key heads, {model.intermediate_size} inner features): take"
        f" {', '.join(map(str, good))}."
    )


def _copies_fill_machines(gpus: int, hardware: Hardware) -> bool:
    per_machine = hardware.gpus_per_machine
    return per_machine % gpus == 0 if gpus <= per_machine else gpus % per_machine == 0


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
