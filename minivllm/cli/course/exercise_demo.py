"""Runs `minivllm demo` in a process where a student's code replaces the engine's.

`minivllm exercise demo` starts this file as `python -m minivllm.cli.course.exercise_demo PATH NAME
[options of demo]`. PATH is the student's file, or a folder of pieces. The
code is replaced before the engine is imported. Each exercise has a scenario that runs the student's
code: without preemptions or drafts, some of it would never run.
"""

import sys
from importlib import import_module
from pathlib import Path

from minivllm.cli import build_parser, status_of
from minivllm.lessons.checker.catalogue import POLICY_MODULE, Exercise, find_exercise
from minivllm.lessons.checker.child.plug import plug_in, where_in
from minivllm.lessons.checker.pieces import PieceFinder
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
        return _run_pieces(path, names.split(","), options)
    return _run_file(names, path, options)


def _run_pieces(folder: Path, names: list[str], options: list[str]) -> int:
    PieceFinder(folder).install()
    from minivllm.cli.serving.demo import play
    from minivllm.lessons.scenarios.capstone import capstone
    from minivllm.lessons.scenarios.scenario import PROMPT_LOOKUP

    args = build_parser("demo").parse_args(["demo", *options])
    drafts = {"speculative_config": dict(PROMPT_LOOKUP)} if "verify-drafts" in names else {}
    scenario = capstone(f"this engine runs on your {', '.join(names)}.", **drafts)
    try:
        return status_of(lambda: play(args, scenario))
    except Exception as error:
        where = "".join(
            where_in(file, error) and f" of {file.stem}{where_in(file, error)}"
            for file in folder.iterdir()
        )
        what = clean(f"{type(error).__name__}{where}: {error}")
        print(f"minivllm: a piece stopped the engine: {what}", file=sys.stderr)
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
    from minivllm.lessons.scenarios.capstone import capstone

    if exercise.is_open:
        from minivllm.core import scheduler

        own_policy = import_module(POLICY_MODULE).OwnPolicy
        scheduler.create_request_queue = lambda policy: own_policy()
    if exercise.name == "stop-strings":
        return demo.play(args, capstone("finn, whose story ends at a stop string."))
    return demo.run(args)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
