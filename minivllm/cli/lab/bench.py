"""`minivllm bench NAME`: runs one measurement; each is a module in `minivllm.lab.bench`."""

import argparse
from importlib import import_module
from types import ModuleType

BENCHES = {
    "throughput": ("output tokens per second, also compared with transformers, vLLM and llama.cpp"),
    "core": "time that the scheduler takes to plan a step, without a model",
    "step": "the parts of a step in milliseconds, compared with the limits of the machine",
    "linear": "a decoder's linear layers with each backend, compared with reading the weights once",
    "events": "cost of recording, and speed of seeking in a recording",
    "dashboard": "response time of the dashboard, and the cost of watching",
    "sharing": "KV cache memory that samples and beams save by sharing blocks",
    "speculation": "output tokens per second with drafts and without, on texts that repeat or not",
    "structured": "what masks of a JSON schema cost in a step, and steps that forced tokens save",
    "serve": "a running server under load, as `vllm bench serve` does",
    "kernels": ("attention and cache-write kernels, compared with a device copy and with peers"),
    "memory": "peak memory compared with weights and KV cache",
    "quality": "what smaller weights cost: perplexity, and how often the top token is the same",
    "startup": "time from the start of Python to the first token, by part",
}
"""Name of a bench and of its module in `minivllm.lab.bench` -> what the bench measures."""

IN_A_FOLDER = frozenset({"dashboard", "kernels", "quality", "serve", "step", "throughput"})
"""Benches with several files, such as `minivllm.lab.bench.step.step`."""


def _module(name: str) -> ModuleType:
    return import_module(
        f"minivllm.lab.bench.{name}.{name}" if name in IN_A_FOLDER else f"minivllm.lab.bench.{name}"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    benches = parser.add_subparsers(dest="bench", metavar="BENCH", required=True)
    for name, summary in BENCHES.items():
        _module(name).add_arguments(
            benches.add_parser(
                name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
            )
        )


def run(args: argparse.Namespace) -> int:
    return _module(args.bench).run(args)
