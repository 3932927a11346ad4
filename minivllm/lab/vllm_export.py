"""Our configuration translated to vLLM's options, and how many GPUs a model needs there.

An option whose default differs in vLLM is always written out. An option that vLLM lacks becomes a
comment if it is set (`missing_options`).

Each GPU must hold its share of the weights, and of the keys and values of one sequence of maximum
length. One copy of the model gets as few GPUs as possible, because splitting costs communication in
every layer. The remaining GPUs get further copies (data parallel). The tensor size must divide the
number of attention heads. If it exceeds the number of key heads, vLLM gives each GPU a whole key
head, and the cache per GPU no longer shrinks.
"""

import json
import math
import shlex
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any

from msgspec import Meta

from minivllm.checks import Positive, check_fields
from minivllm.config import EngineConfig
from minivllm.errors import ConfigError
from minivllm.runtime.model.model_config import ModelConfig
from minivllm.runtime.model.weight_map import weight_shards

SAME = (
    "dtype", "seed", "max_model_len", "block_size", "gpu_memory_utilization",
    "num_gpu_blocks_override", "kv_cache_memory_bytes", "kv_cache_dtype", "max_num_seqs",
    "max_num_batched_tokens", "scheduling_policy", "enable_prefix_caching",
    "enable_chunked_prefill", "load_format", "enforce_eager", "speculative_config",
    "kv_transfer_config",
)  # fmt: skip
"""Options with the same name and the same meaning."""
WITHOUT = {
    "device": "vLLM runs on the device for which it was built",
    "kv_cache_allocator": "vLLM always pages",
    "batching": "vLLM always batches continuously",
    "batch_delay": "vLLM never delays a request to build a batch",
    "batch_size": "vLLM never delays a request to build a batch",
    "attention_backend": "vLLM uses the fastest; the nearest is --attention-backend TRITON_ATTN",
    "quantization": (
        "vLLM quantizes linear layers to int8 only in checkpoints made for it; the nearest is"
        " --quantization fp8_per_channel"
    ),
    "linear_backend": "vLLM has its own kernels for it and uses the fastest available",
    "custom_ops": "vLLM compiles the model; the nearest is --compilation-config",
    "check_invariants": "vLLM has no such check",
    "explain_tokens": "vLLM does not record why it chose a token",
}
"""Options that vLLM does not have, with the reason."""
ADDRESS = "ADDRESS"  # placeholder for the first machine's address, which only the user knows
GIB = 2**30
RESERVED_BYTES = GIB
"""Estimated bytes on each GPU for activations and CUDA graphs. vLLM measures them at startup."""


@dataclass(frozen=True, slots=True)
class Hardware:
    num_gpus: Positive  # in all machines together
    num_machines: Positive
    gpu_memory_gib: Annotated[float, Meta(gt=0, le=100_000)]
    gpu_memory_utilization: float

    def __post_init__(self) -> None:
        check_fields(self, ConfigError)
        if self.num_gpus % self.num_machines:
            got = f"{self.num_gpus} GPUs in {self.num_machines} machines"
            raise ConfigError(f"Each machine must have equally many GPUs; got {got}.")

    @property
    def gpus_per_machine(self) -> int:
        return self.num_gpus // self.num_machines

    @property
    def usable_bytes(self) -> int:
        """Bytes of one GPU that weights and KV cache can use."""
        return int(self.gpu_memory_gib * GIB * self.gpu_memory_utilization) - RESERVED_BYTES

    def divides(self, gpus_per_copy: int) -> bool:
        """Whether copies of this size fill the machines."""
        per_machine, rest = self.gpus_per_machine, self.num_gpus % gpus_per_copy
        return not rest and 0 in (per_machine % gpus_per_copy, gpus_per_copy % per_machine)


@dataclass(frozen=True, slots=True)
class Sizes:
    """vLLM's three parallel sizes; their product is the number of GPUs."""

    tensor: int
    pipeline: int
    data: int
    bytes_per_gpu: int  # of the weights and one sequence of maximum length, on the fullest GPU

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
    most = math.gcd(model.num_attention_heads, model.intermediate_size)
    divisors = (size for size in range(1, most + 1) if most % size == 0)
    good_tensors = [size for size in divisors if 0 in (kv_heads % size, size % kv_heads)]
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
            f" into copies with a tensor size of {tensor or 'any'} and a pipeline size of"
            f" {pipeline or 'any'}: this model's tensor size is one of"
            f" {', '.join(map(str, good_tensors))}, its pipeline size at most {layers}, and their"
            " product must divide the GPUs."
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


@dataclass(frozen=True, slots=True)
class Deployment:
    model: str  # its name or path for vLLM
    config: EngineConfig
    sizes: Sizes
    hardware: Hardware
    server: dict[str, Any]  # `host`, `port` and `served_model_name`; None: not given


def missing_options(config: EngineConfig) -> list[str]:
    """Return one sentence for each option that vLLM lacks and that is not at its default."""
    defaults = {field.name: field.default for field in fields(EngineConfig)}
    return [
        f"{name}={getattr(config, name)!r} has no counterpart in vLLM: {reason}."
        for name, reason in WITHOUT.items()
        if getattr(config, name) != defaults[name]
    ]


def engine_options(target: Deployment) -> dict[str, Any]:
    """Return vLLM's `EngineArgs` by name: configuration and parallel sizes."""
    config, sizes = target.config, target.sizes
    options = {name: getattr(config, name) for name in SAME}
    if config.kv_cache_memory_bytes is not None:
        # vLLM's option is per GPU.
        options["kv_cache_memory_bytes"] = config.kv_cache_memory_bytes // sizes.gpus_per_copy
    for name in ("speculative_config", "kv_transfer_config"):
        if options[name] is not None:
            given = asdict(options[name])
            options[name] = {k: v for k, v in given.items() if v is not None}
    second = options["kv_transfer_config"] or {}
    if second.get("kv_connector") == "SimpleCPUOffloadConnector":  # vLLM's default is another
        second["kv_connector_extra_config"].setdefault("lazy_offload", True)
    # Leave out None ("let the engine choose"), and these two options at vLLM's defaults.
    unsaid = {"load_format": "auto", "enforce_eager": False}
    options = {k: v for k, v in options.items() if v is not None and unsaid.get(k) != v}
    parallel = {"tensor_parallel_size": sizes.tensor, "pipeline_parallel_size": sizes.pipeline}
    return options | parallel


def vllm_commands(target: Deployment) -> list[str]:
    """Return one `vllm serve` command per machine, in order of machines."""
    server = {name: value for name, value in target.server.items() if value is not None}
    common = engine_options(target)
    per_machine, machines = target.hardware.gpus_per_machine, target.hardware.num_machines
    if target.sizes.data > 1:
        common["data_parallel_size"] = target.sizes.data
    commands = []
    for rank in range(machines):
        options = common | ({"headless": True} if rank else server)
        if machines > 1 and target.sizes.gpus_per_copy > per_machine:
            options |= {"nnodes": machines, "node_rank": rank, "master_addr": ADDRESS}
        elif machines > 1:
            local = per_machine // target.sizes.gpus_per_copy
            options |= {"data_parallel_size_local": local, "data_parallel_address": ADDRESS}
            options |= {"data_parallel_start_rank": rank * local} if rank else {}
        words = [shlex.quote(target.model), *map(_flag, options, options.values())]
        commands.append("vllm serve " + " \\\n    ".join(words))
    return commands


def _flag(name: str, value: object) -> str:
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return flag if value else f"--no-{flag.removeprefix('--')}"
    text = json.dumps(value) if isinstance(value, dict) else str(value)
    return f"{flag} {shlex.quote(text)}"


def vllm_script(target: Deployment) -> str:
    """Return a Python program that generates like `minivllm.LLM` with this configuration."""
    options = {"model": target.model, **engine_options(target)}
    lines = "".join(f"        {name}={value!r},\n" for name, value in options.items())
    return f"""\
from vllm import LLM, SamplingParams

if __name__ == "__main__":  # the workers are processes that import this file
    llm = LLM(
{lines}    )
    params = SamplingParams(temperature=0, max_tokens=16)
    for output in llm.generate(["The capital of France is"], params):
        print(output.outputs[0].text)
"""
