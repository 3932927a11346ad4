"""`minivllm to-vllm`: our configuration as a `vllm serve` command and as an offline script.

    minivllm to-vllm smollm2 --gpus 2 --gpu-memory 24 --max-num-seqs 64

All output except commands and Python is a comment. vLLM does not know our aliases and cannot load a
plain GGUF file. So the output names the model's Hub id, or its directory on this machine.
"""

import argparse
from functools import partial
from pathlib import Path

from minivllm.cli import options as cli_options
from minivllm.lab import vllm_export
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.store import model_store
from minivllm.text import plural

ITEM_SIZES = {"float32": 4, "bfloat16": 2, "float16": 2, "auto": 2}
"""Bytes per weight. `auto` is the checkpoint's type, or bfloat16 if that type is float32."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    cli_options.add_model_tag(parser)
    add = partial(cli_options.add_option, parser.add_argument_group("hardware and server"))
    add("--gpus N", "GPUs in all machines together", default=1, dest="num_gpus")
    add("--machines N", "machines with equally many GPUs", default=1, dest="num_machines")
    add("--gpu-memory X", "memory of one GPU in GiB", default=80.0, dest="gpu_memory_gib")
    add("--tensor-parallel-size N", "use this instead of the smallest size that fits")
    add("--pipeline-parallel-size N", "the same for pipeline parallelism")
    add("--host TEXT", "address to serve on")
    add("--port N", "port to serve on")
    add("--served-model-name TEXT", "model name that clients use")
    cli_options.add_engine_options(parser)


def run(args: argparse.Namespace) -> int:
    cli_options.take_model_tag(args)
    config = cli_options.engine_config(args)
    hardware = vllm_export.Hardware(
        args.num_gpus, args.num_machines, args.gpu_memory_gib, config.gpu_memory_utilization
    )

    if config.model.endswith(".gguf"):  # to be unpacked
        directory = model_store.resolve_for_transformers(config.model)
    else:
        directory = model_store.resolve_model(config.model, weights=False)
    model = read_model_config(directory)
    max_model_len = config.max_model_len or model.max_position_embeddings
    sizes = vllm_export.choose_sizes(
        model, hardware, item_size=ITEM_SIZES[config.dtype], max_model_len=max_model_len,
        tensor=args.tensor_parallel_size, pipeline=args.pipeline_parallel_size,
    )  # fmt: skip
    server = {name: getattr(args, name) for name in ("host", "port", "served_model_name")}
    name, remark = vllm_model(config.model, directory)
    target = vllm_export.Deployment(name, config, sizes, hardware, server)
    copies = "copy" if sizes.data == 1 else "copies"
    layout = (
        f"{plural(hardware.num_gpus, 'GPU')}: {sizes.data} {copies} of the model, each on"
        f" {sizes.gpus_per_copy} (tensor {sizes.tensor}, pipeline {sizes.pipeline});"
        f" {sizes.bytes_per_gpu / 2**30:.2f} GiB of weights and one sequence of {max_model_len}"
        f" tokens on each, {hardware.usable_bytes / 2**30:.1f} GiB usable."
    )
    _show(target, [layout, *([remark] if remark else []), *vllm_export.missing_options(config)])
    return 0


def _show(target: vllm_export.Deployment, comments: list[str]) -> None:
    """Print the commands, one for each machine, and the script."""
    sizes, hardware = target.sizes, target.hardware
    print("".join(f"# {comment}\n" for comment in comments))
    for number, command in enumerate(vllm_export.vllm_commands(target)):
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
    print(vllm_export.vllm_script(target), end="")


def vllm_model(name: str, directory: Path) -> tuple[str, str | None]:
    """Return vLLM's name for our model `name`, and a remark about its files if needed."""
    if name == "smollm2":
        hub_id = model_store.SMOLLM2_HUB_ID
        return hub_id, f"{name} is {hub_id} on the Hugging Face Hub."
    if name == "house":
        return str(directory), f"{name} is part of minivllm: copy its directory to where vLLM runs."
    if name in model_store.ALIASES:
        made = "created on this machine: copy its directory"
    elif name.endswith(".gguf"):
        made = "unpacked into this directory: copy it"
    else:
        return name, None
    return str(directory), f"{name} was {made} to where vLLM runs."
