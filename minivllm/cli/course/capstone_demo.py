"""Runs the capstone's scenario in a process whose engine is made of a student's pieces.

`minivllm exercise demo --all-passed` starts this file as `python -m
minivllm.cli.course.capstone_demo FOLDER NAMES [options of demo]`, with pieces that were tried.
"""

import sys
from pathlib import Path

from minivllm.cli import build_parser, status_of
from minivllm.lessons.checker.child.pieces_engine import Pieces, describe
from minivllm.text import clean


def run(folder: Path, names: list[str], options: list[str]) -> int:
    pieces = Pieces(folder, names)
    pieces.install()
    from minivllm.cli.serving.demo import play

    args = build_parser("demo").parse_args(["demo", *options])
    watch = f"this engine runs on your {', '.join(names)}."
    try:
        return status_of(lambda: play(args, pieces.scenario(watch)))
    except Exception as error:
        print(
            clean(f"minivllm: a piece stopped the engine: {describe(error, folder)}."),
            file=sys.stderr,
        )
    return 1


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]))
