"""`minivllm twin`: one trace through vLLM's own scheduler and through ours, and where they differ.

    minivllm twin run.jsonl --vllm-python /path/to/venv/bin/python

The trace is a recording, of minivllm or of vLLM: its requests, their tokens and their arrivals.
vLLM's scheduler, block pool and KV cache manager run without a model. A recording of a synchronous
vLLM is vLLM's side itself, so it needs no vLLM.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from shutil import copyfile

import msgspec

import minivllm
from minivllm.cli import Parser
from minivllm.errors import SimulationError
from minivllm.events.recording.whole_file import write_whole
from minivllm.lab.twin.difference import differences
from minivllm.lab.twin.ours import run_ours
from minivllm.lab.twin.rules import DRAFTS
from minivllm.lab.twin.trace import TwinTrace, read_trace


def add_arguments(parser: Parser) -> None:
    parser.add("TRACE", "a recording", type=Path)
    python = "the Python that has vLLM (default: this one)"
    parser.add("--vllm-python PATH", python, default=argparse.SUPPRESS)
    parser.add("--all", "follow vLLM's rule in each difference, and go on to the next")
    parser.add("-o FOLDER", "keep ours.jsonl and vllm.jsonl there", type=Path, dest="output")


def run(args: argparse.Namespace) -> int:
    trace = read_trace(args.trace)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        ours, theirs = folder / "ours.jsonl", folder / "vllm.jsonl"
        run_ours(trace, ours)
        if trace.is_vllms and not hasattr(args, "vllm_python"):
            copyfile(args.trace, theirs)
        else:
            _run_vllm(trace, theirs, getattr(args, "vllm_python", sys.executable))
        found = list(islice(differences(trace, theirs), None if args.all else 1))
    parts = [DRAFTS] * trace.has_drafts + found
    is_explained = all(one.intended for one in found)
    if is_explained and (args.all or not found):
        equal = "Equal, if minivllm follows vLLM's rules there" if found else "Equal"
        parts.append(f"{equal}: both schedulers decide the same about every request.")
    print(*parts, sep="\n\n")
    return 0 if is_explained else 1


def _run_vllm(trace: TwinTrace, recording: Path, python: str) -> None:
    """Raises `SimulationError` if that Python has no vLLM, or if vLLM fails."""
    given = recording.with_suffix(".json")
    write_whole(given, msgspec.json.encode(trace))
    root = str(Path(minivllm.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    command = [python, "-m", "minivllm.lab.twin.simulated", str(given)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    given.unlink()
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or ["no message"])[-1]
        raise SimulationError(
            f"vLLM's side failed ({reason}): name a Python with vLLM by --vllm-python."
        )
