"""How many GPUs a model needs in vLLM: tensor, pipeline and data parallel sizes.

Each GPU must hold its share of the weights, and of the keys and values of one sequence of maximum
length. One copy of the model gets as few GPUs as possible, because splitting costs communication in
every layer. The remaining GPUs get further copies (data parallel).

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
    num_gpus: int  # in all machines together
    num_machines: int
    gpu_memory_gib: float
    gpu_memory_utilization: float

    def __post_init__(self) -> None:
        if self.num_machines < 1 or self.num_gpus < 1 or self.num_gpus % self.num_machines:
            raise ConfigError(
                "--gpus and --machines must be at least 1, with equally many GPUs in each machine;"
                f" got {self.num_gpus} GPUs in {self.num_machines} machines."
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

    def divides(self, gpus_per_copy: int) -> bool:
        """Whether copies of this size fill the machines."""
        per_machine = self.gpus_per_machine
        is_whole = self.num_gpus % gpus_per_copy == 0
        return is_whole and 0 in (per_machine % gpus_per_copy, gpus_per_copy % per_machine)


@dataclass(frozen=True, slots=True)
class Sizes:
    """vLLM's three parallel sizes; their product is the number of GPUs."""

    tensor: int
    pipeline: int
    data: int
    bytes_per_gpu: int
    """Of the weights and one sequence of maximum length, on the fullest GPU."""

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
    layers, kv_heads = model.num_hidden_layers, model.num_key_value_heads
    good_tensors = [
        size
        for size in _divisors(math.gcd(model.num_attention_heads, model.intermediate_size))
        if 0 in (kv_heads % size, size % kv_heads)
    ]
    sizes = [
        Sizes(t, p, hardware.num_gpus // (t * p), _bytes(model, t, p, item_size, max_model_len))
        for t in good_tensors
        for p in range(1, layers + 1)
        if t == tensor or (tensor is None and t <= hardware.gpus_per_machine)
        if pipeline in (None, p) and hardware.divides(t * p)
    ]
    if not sizes:
        raise ConfigError(
            f"{hardware.num_gpus} GPU(s) in {hardware.num_machines} machine(s) cannot be divided"
            f" into copies with a tensor size of {'any' if tensor is None else tensor} and a"
            f" pipeline size of {'any' if pipeline is None else pipeline}: this model's tensor size"
            f" is one of {', '.join(map(str, good_tensors))}, its pipeline size at most {layers},"
            " and their product must divide the GPUs."
        )
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
    return min(fitting, key=lambda s: (s.gpus_per_copy, layers % s.pipeline != 0, -s.tensor))


def _bytes(
    model: ModelConfig, tensor: int, pipeline: int, item_size: int, max_model_len: int
) -> int:
    layers = math.ceil(model.num_hidden_layers / pipeline)
    numbers = {name: math.prod(shard.shape) for name, shard in weight_shards(model).items()}
    by_layer = sum(n for name, n in numbers.items() if name.startswith("model.layers."))
    # Embeddings and head are in the first and the last stage of the pipeline.
    outside = sum(numbers.values()) - by_layer
    weights = (by_layer * layers / model.num_hidden_layers + outside) / tensor
    kv_heads = max(1, model.num_key_value_heads // tensor)
    cache = 2 * layers * kv_heads * model.head_size * max_model_len
    return int(item_size * (weights + cache))


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
