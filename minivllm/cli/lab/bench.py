"""`minivllm bench NAME`: runs one measurement; each is a module in `minivllm.lab.bench`."""

import argparse
from importlib import import_module
from types import ModuleType

from minivllm.cli import add_command
from minivllm.lab.common.report import add_json_argument

BENCHES = {
    "throughput": (
        "throughput.throughput",
        "output tokens per second, also compared with transformers, vLLM and llama.cpp",
    ),
    "core": ("core", "time that the scheduler takes to plan a step, without a model"),
    "step": (
        "step.step",
        "the parts of a step in milliseconds, compared with the limits of the machine",
    ),
    "events": ("events", "cost of recording, and speed of seeking in a recording"),
    "dashboard": ("dashboard", "response time of the dashboard, and the cost of drawing"),
    "speculation": (
        "speculation",
        "output tokens per second with drafts and without, on texts that repeat or not",
    ),
    "kernels": (
        "kernels.kernels",
        "attention and cache-write kernels, compared with a device copy and with torch",
    ),
    "quality": (
        "quality.quality",
        "what smaller weights cost: perplexity, and how often the top token is the same",
    ),
}
"""Name of a bench -> its module in `minivllm.lab.bench`, and what it measures."""


def _module(name: str) -> ModuleType:
    return import_module(f"minivllm.lab.bench.{BENCHES[name][0]}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    benches = parser.add_subparsers(dest="bench", metavar="BENCH", required=True)
    for name, (_, summary) in BENCHES.items():
        bench = add_command(benches, name, summary)
        _module(name).add_arguments(bench)
        add_json_argument(bench)


def run(args: argparse.Namespace) -> int:
    return _module(args.bench).run(args)
