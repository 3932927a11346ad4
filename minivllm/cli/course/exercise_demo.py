"""Runs `minivllm demo` in a process where a student's code replaces the engine's.

`minivllm exercise demo` starts this file as `python -m minivllm.cli.course.exercise_demo PATH NAME
[options of demo]`. PATH is the student's file, or a folder of pieces. The code is replaced before
the engine is imported.
"""

import sys
from importlib import import_module
from pathlib import Path

from minivllm.cli import build_parser, module_of, status_of
from minivllm.lessons.checker.catalogue import POLICY_MODULE, find_exercise
from minivllm.lessons.checker.child.imports import import_files, where_in
from minivllm.lessons.scenarios.capstone import capstone
from minivllm.lessons.scenarios.scenario import PROMPT_LOOKUP
from minivllm.text import clean

OPTIONS: dict[str, tuple[str, str]] = {
    "copy-on-write": ("--scenario", "parallel-sampling"),
    "preemption": ("--scenario", "memory-pressure"),
    "paged-attention": ("--attention-backend", "torch"),
    "split-kv": ("--attention-backend", "torch"),
    "paged-attention-triton": ("--attention-backend", "triton:naive"),
    "verify-drafts": ("--scenario", "speculation"),
    "experts": ("--model", "tiny-moe"),
    "two-tiers": ("--scenario", "two-memories"),
    "own-policy": ("--scenario", "burst"),
}
"""Exercise -> options of `demo` that make its code run. Interpreted Triton takes seconds a step."""


def run(path: Path, names: list[str], options: list[str]) -> int:
    if path.is_dir():
        files = {file.stem: file for file in path.glob("*.py")}
    else:
        files = {find_exercise(names[0]).module: path}
    try:
        import_files(files)
        return status_of(lambda: _play(names, options, of_pieces=path.is_dir()))
    except Exception as error:  # raised by the student's code, or by the engine because of it
        places = [(file, where) for file in files.values() if (where := where_in(file, error))]
        file, where = (*places, (path, ""))[0]
        what = clean(f"{type(error).__name__}{where}: {error}")
        print(f"minivllm: The engine cannot run with {file}: {what}", file=sys.stderr)
        if path.is_file():
            check = f"`minivllm exercise check {names[0]}`"
            print(f"{check} shows the smallest failing case.", file=sys.stderr)
        return 1


def _play(names: list[str], options: list[str], *, of_pieces: bool) -> int:
    demo = module_of("demo")  # which imports the engine
    needed = () if of_pieces else OPTIONS.get(names[0], ())
    args = build_parser("demo").parse_args(["demo", *options, *needed])
    if of_pieces:
        drafts = {"speculative_config": dict(PROMPT_LOOKUP)} if "verify-drafts" in names else {}
        return demo.play(args, capstone(f"this engine runs on your {', '.join(names)}.", **drafts))
    exercise = find_exercise(names[0])
    if exercise.is_open:
        policies, scheduler = map(import_module, (POLICY_MODULE, "minivllm.core.scheduler"))
        scheduler.create_request_queue = lambda policy: policies.OwnPolicy()
    if exercise.name == "stop-strings":
        return demo.play(args, capstone("finn, whose story ends at a stop string."))
    return demo.run(args)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]))
