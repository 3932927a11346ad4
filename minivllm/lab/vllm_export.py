"""`vllm_commands` and `vllm_script`: an `EngineConfig` translated to vLLM's options.

An option whose default differs in vLLM is always written out. An option that vLLM lacks becomes a
comment if it is set (`missing_options`).
"""

import json
import shlex
from dataclasses import asdict, dataclass, fields
from typing import Any

from minivllm.config import EngineConfig
from minivllm.lab.vllm_sizes import Hardware, Sizes

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
    "attention_backend": (
        "the nearest is --attention-backend TRITON_ATTN; by default, vLLM uses the fastest"
        " available"
    ),
    "quantization": (
        "vLLM quantizes linear layers to int8 only in checkpoints made for it; the nearest is"
        " --quantization fp8_per_channel"
    ),
    "linear_backend": ("vLLM has its own kernels for it and uses the fastest available"),
    "custom_ops": "vLLM compiles the model; the nearest is --compilation-config",
    "check_invariants": "vLLM has no such check",
    "explain_tokens": "vLLM does not record why it chose a token",
}
"""Options that vLLM does not have, with the reason."""
ADDRESS = "ADDRESS"
"""Placeholder for the first machine's address, which only the user knows."""


@dataclass(frozen=True, slots=True)
class Deployment:
    model: str
    """The model's name or path for vLLM."""
    config: EngineConfig
    sizes: Sizes
    hardware: Hardware
    server: dict[str, Any]
    """`host`, `port` and `served_model_name`. None means that the user did not give a value."""


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
    if config.kv_transfer_config is not None:  # vLLM's default is another
        options["kv_transfer_config"]["kv_connector_extra_config"].setdefault("lazy_offload", True)
    # Leave out None ("let the engine choose"), and these two options at vLLM's defaults.
    unsaid = {"load_format": "auto", "enforce_eager": False}
    options = {k: v for k, v in options.items() if v is not None and unsaid.get(k) != v}
    parallel = {"tensor_parallel_size": sizes.tensor, "pipeline_parallel_size": sizes.pipeline}
    return options | parallel


def vllm_commands(target: Deployment) -> list[str]:
    """Return one `vllm serve` command per machine, in order of machines."""
    server = {name: value for name, value in target.server.items() if value is not None}
    common = engine_options(target)
    per_machine = target.hardware.gpus_per_machine
    machines = target.hardware.num_machines
    if target.sizes.data > 1:
        common["data_parallel_size"] = target.sizes.data
    commands = []
    for rank in range(machines):
        options = common | (server if rank == 0 else {})
        if machines > 1 and target.sizes.gpus_per_copy > per_machine:
            options |= {"nnodes": machines, "node_rank": rank, "master_addr": ADDRESS}
            options |= {"headless": True} if rank else {}
        elif machines > 1:
            local = per_machine // target.sizes.gpus_per_copy
            options |= {"data_parallel_size_local": local, "data_parallel_address": ADDRESS}
            options |= {"data_parallel_start_rank": rank * local, "headless": True} if rank else {}
        words = [
            shlex.quote(target.model),
            *(_flag(name, value) for name, value in options.items()),
        ]
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
    options = "".join(f"    {name}={value!r},\n" for name, value in engine_options(target).items())
    return (
        "from vllm import LLM, SamplingParams\n"
        "\n"
        'if __name__ == "__main__":  # the workers are processes that import this file\n'
        f"    llm = LLM(\n        model={target.model!r},\n"
        + "".join(f"    {line}\n" for line in options.splitlines())
        + "    )\n"
        "    params = SamplingParams(temperature=0, max_tokens=16)\n"
        '    for output in llm.generate(["The capital of France is"], params):\n'
        "        print(output.outputs[0].text)\n"
    )
