"""Runs `minivllm demo` in a process where a student's code replaces the engine's.

`minivllm exercise demo` starts this file as `python -m minivllm.cli.course.exercise_demo PATH NAME
[options of demo]`. PATH is the student's file, or a folder of pieces that were tried together. The
code is replaced before the engine is imported. Each exercise has a scenario that runs the student's
code: without preemptions or drafts, some of it would never run.
"""

import sys
from importlib import import_module
from pathlib import Path

from minivllm.cli import build_parser, status_of
from minivllm.lessons.checker.catalogue import POLICY_MODULE, Exercise, find_exercise
from minivllm.lessons.checker.child.pieces_engine import Pieces, describe
from minivllm.lessons.checker.child.plug import plug_in, where_in
from minivllm.text import clean

OPTIONS: dict[str, tuple[str, str]] = {
    "copy-on-write": ("--scenario", "parallel-sampling"),
    "preemption": ("--scenario", "memory-pressure"),
    "paged-attention": ("--attention-backend", "torch"),
    "split-kv": ("--attention-backend", "torch"),
    "paged-attention-triton": ("--attention-backend", "triton:naive"),
    "verify-drafts": ("--scenario", "speculation"),
    "own-policy": ("--scenario", "burst"),
}
"""Exercise -> the options of `demo` that make its code run. Without a GPU, Triton code is
interpreted, and a step takes seconds.
"""


def run(path: Path, names: str, options: list[str]) -> int:
    if path.is_dir():
        return _run_pieces(Pieces(path, names.split(",")), options)
    return _run_file(names, path, options)


def _run_pieces(pieces: Pieces, options: list[str]) -> int:
    pieces.install()
    from minivllm.cli.serving.demo import play

    args = build_parser("demo").parse_args(["demo", *options])
    watch = f"this engine runs on your {', '.join(pieces.names)}."
    try:
        return status_of(lambda: play(args, pieces.scenario(watch)))
    except Exception as error:
        what = describe(error, pieces.folder)
        print(clean(f"minivllm: a piece stopped the engine: {what}."), file=sys.stderr)
    return 1


def _run_file(name: str, file: Path, options: list[str]) -> int:
    try:
        exercise = find_exercise(name)
        plug_in(exercise.module, file)
        return status_of(lambda: _demo(exercise, options))
    except Exception as error:  # raised by the student's code, or by the engine because of it
        what = clean(f"{type(error).__name__}{where_in(file, error)}: {error}")
        print(f"minivllm: The engine cannot run with {file}: {what}", file=sys.stderr)
        print(f"`minivllm exercise check {name}` shows the smallest failing case.", file=sys.stderr)
        return 1


def _demo(exercise: Exercise, options: list[str]) -> int:
    args = build_parser("demo").parse_args(["demo", *OPTIONS.get(exercise.name, ()), *options])
    # Import after the student's module is there: these import the engine.
    from minivllm.cli.serving import demo
    from minivllm.lessons.scenarios import capstone

    if exercise.name == "token-mask":
        from minivllm.lessons.checker.child.matcher import use_plain_regexes

        use_plain_regexes()
        return demo.play(args, capstone.patterns())
    if exercise.is_open:
        from minivllm.core import scheduler

        own_policy = import_module(POLICY_MODULE).OwnPolicy
        scheduler.create_request_queue = lambda policy: own_policy()
    if exercise.name == "stop-strings":
        return demo.play(args, capstone.capstone("finn, whose story ends at a stop string."))
    return demo.run(args)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
