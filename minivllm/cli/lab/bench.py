"""`minivllm bench NAME`: runs one measurement; each is a module in `minivllm.lab.bench`."""

import argparse
from importlib import import_module
from types import ModuleType

from minivllm.cli import add_command
from minivllm.lab.common.report import JSON_HELP, run_bench

BENCHES = {
    "throughput": "output tokens per second, also compared with transformers, vLLM and llama.cpp",
    "core": "time that the scheduler takes to plan a step, without a model",
    "step": "the parts of a step in milliseconds, compared with the limits of the machine",
    "events": "cost of recording, and speed of seeking in a recording",
    "dashboard": "response time of the dashboard, and the cost of drawing",
    "speculation": "output tokens per second with drafts and without, on texts that repeat or not",
    "kernels": "attention and cache-write kernels, compared with a device copy and with torch",
    "quality": "what smaller weights cost: perplexity, and how often the top token is the same",
}
"""Name of a bench -> what it measures."""
_FOLDERS = {"throughput", "step", "kernels", "quality"}
"""Benches whose module is in a folder of its name."""


def _module(name: str) -> ModuleType:
    path = f"{name}.{name}" if name in _FOLDERS else name
    return import_module(f"minivllm.lab.bench.{path}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    benches = parser.add_subparsers(dest="bench", metavar="BENCH", required=True)
    for name, summary in BENCHES.items():
        bench, module = add_command(benches, name, summary), _module(name)
        bench.epilog = getattr(module, "EPILOG", None)
        if hasattr(module, "add_arguments"):
            module.add_arguments(bench.add)
        bench.add("--json", JSON_HELP)


def run(args: argparse.Namespace) -> int:
    return run_bench(_module(args.bench).measure, args)
