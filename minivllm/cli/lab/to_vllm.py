"""`minivllm to-vllm`: our configuration as a `vllm serve` command and as an offline script.

    minivllm to-vllm smollm2 --gpus 2 --gpu-memory 24 --max-num-seqs 64

All output except commands and Python is a comment. vLLM does not know our aliases and cannot load a
plain GGUF file. So the output names the model's Hub id, or its directory on this machine.
"""

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from minivllm.cli import options as cli_options
from minivllm.lab.vllm_export import Deployment, missing_options, vllm_commands, vllm_script
from minivllm.lab.vllm_sizes import GIB, Hardware, choose_sizes
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.store.model_store import (
    ALIASES,
    SMOLLM2_HUB_ID,
    resolve_for_transformers,
    resolve_model,
)
from minivllm.text import plural

ITEM_SIZES = {"float32": 4, "bfloat16": 2, "float16": 2, "auto": 2}
"""Bytes per weight. `auto` is the checkpoint's type, or bfloat16 if that type is float32."""


@dataclass
class Options:
    gpus: int = 1
    """GPUs in all machines together."""
    machines: int = 1
    """Machines with equally many GPUs."""
    gpu_memory: float = 80.0
    """Memory of one GPU in GiB."""
    tensor_parallel_size: int | None = None
    """Use this instead of the smallest size that fits."""
    pipeline_parallel_size: int | None = None
    """The same for pipeline parallelism."""
    host: str | None = None
    """Address to serve on."""
    port: int | None = None
    """Port to serve on."""
    served_model_name: str | None = None
    """Model name that clients use."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    cli_options.add_model_tag(parser)
    cli_options.add_fields(parser.add_argument_group("hardware and server"), Options)
    cli_options.add_engine_options(parser)


def run(args: argparse.Namespace) -> int:
    cli_options.take_model_tag(args)
    config = cli_options.engine_config(args)
    options = Options(**cli_options.given_fields(args, Options))
    usable = config.gpu_memory_utilization
    hardware = Hardware(options.gpus, options.machines, options.gpu_memory, usable)

    unpacked = config.model.endswith(".gguf")
    resolve = resolve_for_transformers if unpacked else partial(resolve_model, weights=False)
    directory = resolve(config.model)
    model = read_model_config(directory)
    max_model_len = config.max_model_len or model.max_position_embeddings
    sizes = choose_sizes(
        model,
        hardware,
        item_size=ITEM_SIZES[config.dtype],
        max_model_len=max_model_len,
        tensor=options.tensor_parallel_size,
        pipeline=options.pipeline_parallel_size,
    )
    server = {name: getattr(options, name) for name in ("host", "port", "served_model_name")}
    name, remark = vllm_model(config.model, directory)
    target = Deployment(name, config, sizes, hardware, server)
    copies = "copy" if sizes.data == 1 else "copies"
    layout = (
        f"{plural(hardware.num_gpus, 'GPU')}: {sizes.data} {copies} of the model, each on"
        f" {sizes.gpus_per_copy} (tensor {sizes.tensor}, pipeline {sizes.pipeline});"
        f" {sizes.bytes_per_gpu / GIB:.2f} GiB of weights and one sequence of {max_model_len}"
        f" tokens on each, {hardware.usable_bytes / GIB:.1f} GiB usable."
    )
    _show(target, [layout, *([remark] if remark else []), *missing_options(config)])
    return 0


def _show(target: Deployment, comments: list[str]) -> None:
    """Print the commands, one for each machine, and the script."""
    sizes, hardware = target.sizes, target.hardware
    print("".join(f"# {comment}\n" for comment in comments))
    for number, command in enumerate(vllm_commands(target)):
        if hardware.num_machines > 1:
            print(f"# On machine {number + 1} (ADDRESS is the address of machine 1):")
        print(f"{command}\n")
    print("# The same offline, as a Python script:")
    if sizes.data > 1:
        each = "each time with its own GPUs and part of the prompts"
        print(f"# An LLM is one copy: start this script {sizes.data} times, {each}.")
    if hardware.num_machines > 1 and sizes.gpus_per_copy > hardware.gpus_per_machine:
        print(
            "# A copy is larger than a machine: start a Ray cluster on the machines, and add"
            " distributed_executor_backend='ray'."
        )
    print("# Beams: llm.beam_search(prompts, BeamSearchParams(...)); vLLM has no best_of.")
    print(vllm_script(target), end="")


def vllm_model(name: str, directory: Path) -> tuple[str, str | None]:
    """Return vLLM's name for our model `name`, and a remark about its files if needed."""
    if name == "smollm2":
        return SMOLLM2_HUB_ID, f"{name} is {SMOLLM2_HUB_ID} on the Hugging Face Hub."
    if name == "house":
        return str(directory), f"{name} is part of minivllm: copy its directory to where vLLM runs."
    if name in ALIASES:
        made = "created on this machine: copy its directory"
    elif name.endswith(".gguf"):
        made = "unpacked into this directory: copy it"
    else:
        return name, None
    return str(directory), f"{name} was {made} to where vLLM runs."
