"""Runs `minivllm demo` in a process where a student's module replaces the engine's.

`minivllm exercise demo` starts this file as `python -m minivllm.cli.course.exercise_demo NAME FILE
[options of demo]`. The module is replaced before the engine is imported. `OPTIONS` make the demo
run the student's code: an engine with kernels would not run attention written in torch, and an
engine without drafts verifies none.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from minivllm.cli import main as minivllm
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.child.plug import plug_in, where_in
from minivllm.text import clean

OPTIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "minivllm.runtime.attention.torch_backend": ("--attention-backend", "torch"),
        "minivllm.runtime.attention.partial": ("--attention-backend", "torch"),
        "minivllm.kernels.attention.decode_naive": ("--attention-backend", "triton:naive"),
        "minivllm.speculation.verify": ("--scenario", "speculation"),
    }
)
"""Student's module -> the options of `demo` that make it run. Without a GPU, Triton code is
interpreted, and a step takes seconds.
"""


def run(name: str, file: Path, options: list[str]) -> int:
    try:
        module = find_exercise(name).module
        plug_in(module, file)
        return minivllm(["demo", *OPTIONS.get(module, ()), *options])
    except Exception as error:  # raised by the student's code, or by the engine because of it
        what = clean(f"{type(error).__name__}{where_in(file, error)}: {error}")
        print(f"minivllm: The engine cannot run with {file}: {what}", file=sys.stderr)
        print(f"`minivllm exercise check {name}` shows the smallest failing case.", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
