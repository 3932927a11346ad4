#!/usr/bin/env python3
"""Draws the diagrams of the docs, docs/assets/diagrams/*.svg; `make pictures` does the same.

    tools/pictures/make_diagrams.py                       # all of them, in place
    tools/pictures/make_diagrams.py --only block-table --out /tmp/x

Their figures are those of the lessons' engines, so a diagram and the page around it agree.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

sys.path.insert(0, str(Path(__file__).resolve().parent))

from diagrams import memory, sharing, speed, steps
from diagrams.canvas import Canvas

from minivllm.lessons.site.diagrams import DIAGRAMS

PICTURES = Path(__file__).resolve().parents[2] / "docs/assets/diagrams"

DRAWN: Mapping[str, Callable[[Canvas], None]] = MappingProxyType(
    {
        "serving": steps.serving,
        "step-loop": steps.step_loop,
        "kv-cache": memory.kv_cache,
        "reserved-and-used": memory.reserved_and_used,
        "block-table": memory.block_table,
        "batching": steps.batching,
        "flattened-batch": steps.flattened_batch,
        "hash-chain": sharing.hash_chain,
        "copy-on-write": sharing.copy_on_write,
        "preemption": steps.preemption,
        "roofline": speed.roofline,
        "split-and-merge": speed.split_and_merge,
        "speculation": speed.speculation,
        "quantized-block": speed.quantized_block,
    }
)
"""Name of a diagram -> the function that draws it."""


def draw(name: str) -> str:
    """The diagram as SVG."""
    about = DIAGRAMS[name]
    canvas = Canvas(about.title)
    DRAWN[name](canvas)
    return canvas.svg(name, about.title, about.description)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the diagrams of the docs.")
    parser.add_argument(
        "--out",
        type=Path,
        default=PICTURES,
        metavar="FOLDER",
        help="(default: docs/assets/diagrams)",
    )
    parser.add_argument(
        "--only", choices=tuple(DRAWN), action="append", help="(default: all of them)"
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.only or DRAWN:
        (args.out / f"{name}.svg").write_text(draw(name), encoding="utf-8")


if __name__ == "__main__":
    main()
