"""`minivllm bench NAME`: runs one measurement of `minivllm.lab.bench`, a module each."""

import argparse
from importlib import import_module
from types import ModuleType

BENCHES = {
    "throughput": (
        "output tokens per second, alone or against transformers, vLLM and llama.cpp in the"
        " same run"
    ),
    "core": "how long the scheduler takes to plan a step, without a model",
    "step": "where each millisecond of a step goes, against the limits of the machine",
    "linear": "a decoder's linear layers by each way of multiplying, against reading the weights",
    "events": "what recording costs, and how fast a recording is searched",
    "dashboard": "how quickly the dashboard answers, and what it costs to watch",
    "sharing": "KV cache memory saved by samples and beams that share blocks",
    "serve": "a running server under load, as `vllm bench serve` does",
    "kernels": (
        "time and memory traffic of attention and cache writes, against the device's own copy and"
        " peers"
    ),
    "memory": "peak memory against weights and KV cache",
    "startup": "from the start of Python to the first token, part by part",
}
"""Name of a bench, which is also its module in `minivllm.lab.bench` -> what it measures."""

IN_A_FOLDER = frozenset({"dashboard", "kernels", "serve", "step", "throughput"})
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
