#!/usr/bin/env python3
"""Draws the pictures of the docs and the README, docs/assets/dashboard/*.svg, from recordings.

    tools/pictures/make_pictures.py           # all pictures; `make pictures` does the same
    tools/pictures/make_pictures.py blocks    # only this picture

Each picture is one `minivllm shot` command. tests/more/tui/test_pictures.py compares the dashboard
with the pictures; after an intended change of the dashboard, run this command again.
"""

import sys
from pathlib import Path

from minivllm.cli import main as minivllm

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs/assets/dashboard"
RECORDINGS = ROOT / "docs/assets/recordings"

SMALL, BLOCKS = ("--size", "120x30"), ("--screen", "blocks")
SHOTS = {
    # Four users share a system prompt, a fifth waits for a slot, and a sixth has finished.
    "overview": ("shared-prefix.jsonl", "--step", "111"),
    "overview-light": ("memory-pressure.jsonl", "--step", "90", "--light"),
    "blocks": (
        "shared-prefix.jsonl", "--step", "111", *BLOCKS, "--choose", "b3", "--choose", "eve",
    ),
    "scheduler": (
        "long-and-short.jsonl", "--step", "26", "--screen", "scheduler", "--choose", "diary",
    ),
    "requests": (
        "memory-pressure.jsonl", "--step", "140", "--screen", "requests", "--choose", "cleo",
    ),
    "events": ("memory-pressure.jsonl", "--step", "82", "--screen", "events", "--choose", "e1015"),
    "compare": (
        "policies/static+contiguous.jsonl", "--with", "policies/continuous+paged.jsonl",
        "--step", "100", "--screen", "compare",
    ),
    "choice": ("choice.jsonl", "--step", "15", "--screen", "choice", "--choose", "ada"),
    "speculation": ("speculation.jsonl", "--step", "20", "--screen", "requests", "--choose", "ben"),
    # A forced token, and the word that the model wanted; then words without their own step.
    "forced": ("structured.jsonl", "--step", "19", "--screen", "choice", "--choose", "eve"),
    "structured": ("structured.jsonl", "--step", "20", *SMALL),
    # One step copies blocks to the host, and two requests wait for blocks from there.
    "two-memories": (
        "two-memories.jsonl", "--step", "240", *BLOCKS, "--choose", "b18", "--choose", "gil",
    ),
    "two-memories-overview": ("two-memories.jsonl", "--step", "240", "--choose", "gil"),
    "race": (
        "shared-prefix.jsonl", "--race", "static+contiguous,continuous+paged",
        "--step", "150", "--screen", "compare",
    ),
    "beams": ("beams.jsonl", "--step", "60", "--screen", "requests", "--choose", "ada.19"),
    "real-vllm-blocks": ("vllm/run-ahead.jsonl", "--step", "20", *BLOCKS, *SMALL, "--choose", "b3"),
    "real-vllm-waits": ("vllm/run-ahead.jsonl", "--step", "20", "--screen", "scheduler", *SMALL),
    "real-vllm-twin": (
        "vllm/in-step-ours.jsonl", "--with", "vllm/in-step.jsonl", "--step", "51",
        "--screen", "compare", *SMALL,
    ),
    # for docs/learn
    "pool-full": ("memory-pressure.jsonl", "--step", "60", "--size", "120x32"),
    "freed": ("memory-pressure.jsonl", "--step", "66", *BLOCKS, *SMALL, "--choose", "b7"),
    "copy-on-write": ("parallel-sampling.jsonl", "--step", "2", *BLOCKS, *SMALL, "--choose", "b3"),
    "samples": ("parallel-sampling.jsonl", "--step", "10", "--size", "120x32"),
    "latencies": ("burst.jsonl", "--step", "63", "--screen", "requests", *SMALL, "--choose", "ivo"),
    "x-ray": (
        "kernels/x-ray.jsonl", "--step", "3", *BLOCKS, *SMALL, "--choose", "b7", "--choose", "ada",
    ),
}  # fmt: skip
"""Name of the picture -> the arguments of `minivllm shot`, with names of committed recordings."""
SCREENS = ("overview", "blocks", "scheduler", "requests", "events", "compare", "race", "choice")
SIZED = {
    f"{name}.{size}": (*SHOTS[name], "--size", size)
    for name in SCREENS
    for size in ("80x24", "200x50")
}
"""The pictures of the page "All screens", in a small and a large terminal."""


def draw(name: str, path: Path) -> None:
    words = (SHOTS | SIZED)[name]
    found = (str(RECORDINGS / word) if word.endswith(".jsonl") else word for word in words)
    status = minivllm(["shot", *found, "-o", str(path)])
    if status:
        sys.exit(status)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or (*SHOTS, *SIZED):
        draw(chosen, PICTURES / f"{chosen}.svg")
