"""`vllm_commands` and `vllm_script`: an `EngineConfig` in vLLM's words.

Text out of data: nothing is run and no vLLM is needed. Options whose default differs between the
two are always written out, so that what is printed means the same in both and in later versions of
vLLM; the tests hold every option against the real parser of vLLM where one is installed.

Easy to get wrong: what has no counterpart. An option that is quietly left out changes what runs, so
each one that was set and cannot be said becomes a comment (`notes`).
"""

import shlex
from dataclasses import dataclass, fields
from typing import Any

from minivllm.config import EngineConfig
from minivllm.lab.vllm_sizes import Hardware, Sizes

SAME = (
    "dtype",
    "seed",
    "max_model_len",
    "block_size",
    "gpu_memory_utilization",
    "num_gpu_blocks_override",
    "kv_cache_memory_bytes",
    "max_num_seqs",
    "max_num_batched_tokens",
    "scheduling_policy",
    "enable_prefix_caching",
    "enable_chunked_prefill",
    "load_format",
    "enforce_eager",
)
"""Options with the same name and the same meaning."""
WITHOUT = {
    "device": "vLLM runs on the device that it was built for",
    "kv_cache_allocator": "vLLM always pages",
    "batching": "vLLM always batches continuously",
    "batch_delay": "a request never waits for company",
    "batch_size": "a request never waits for company",
    "attention_backend": (
        "the nearest is --attention-backend TRITON_ATTN; without it vLLM takes the fastest it finds"
    ),
    "linear_backend": (
        "vLLM's choices for it are kernels of its own; without it vLLM takes the fastest it finds"
    ),
    "custom_ops": "vLLM compiles the model; the nearest is --compilation-config",
    "check_invariants": "vLLM has no such check",
}
"""Options that vLLM does not have, and why it does without."""
ADDRESS = "ADDRESS"
"""Stands for the first machine's address, which only the user knows."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is to run where."""

    model: str
    """As vLLM is to be told."""
    config: EngineConfig
    sizes: Sizes
    hardware: Hardware
    server: dict[str, Any]
    """`host`, `port`, `served_model_name`, as far as they were given."""


def notes(config: EngineConfig) -> list[str]:
    """One sentence for each option that was set and has no counterpart."""
    defaults = {field.name: field.default for field in fields(EngineConfig)}
    return [
        f"{name}={getattr(config, name)!r} has no counterpart: {reason}."
        for name, reason in WITHOUT.items()
        if getattr(config, name) != defaults[name]
    ]


def engine_options(target: Deployment) -> dict[str, Any]:
    """vLLM's `EngineArgs`, by name: those of the configuration and the parallel sizes."""
    config, sizes = target.config, target.sizes
    options = {name: getattr(config, name) for name in SAME}
    if config.kv_cache_memory_bytes is not None:
        # vLLM's is of one GPU
        options["kv_cache_memory_bytes"] = config.kv_cache_memory_bytes // sizes.gpus_per_copy
    # None is "let the engine see", and these two are vLLM's defaults, which say so by themselves.
    unsaid = {"load_format": "auto", "enforce_eager": False}
    options = {k: v for k, v in options.items() if v is not None and unsaid.get(k) != v}
    parallel = {"tensor_parallel_size": sizes.tensor, "pipeline_parallel_size": sizes.pipeline}
    return options | parallel


def vllm_commands(target: Deployment) -> list[str]:
    """`vllm serve`, once for each machine, the first machine's first."""
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
    return f"{flag} {shlex.quote(str(value))}"


def vllm_script(target: Deployment) -> str:
    """A Python program that generates as `minivllm.LLM` would with this configuration."""
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
