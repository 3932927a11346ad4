"""Runs `minivllm demo` in a process where a student's module replaces the engine's.

`minivllm exercise demo` starts this file as `python -m minivllm.cli.course.exercise_demo NAME FILE
[options of demo]`. The module is replaced before the engine is imported. An engine with kernels
would not run attention written in torch, so `BACKENDS` selects an attention backend.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from minivllm.cli import main as minivllm
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.child.plug import plug_in, where_in
from minivllm.text import clean

BACKENDS: Mapping[str, str] = MappingProxyType(
    {
        "minivllm.runtime.attention.torch_backend": "torch",
        "minivllm.runtime.attention.partial": "torch",
        "minivllm.kernels.attention.decode_naive": "triton:naive",
    }
)
"""Student's module -> the attention backend that runs it. Without a GPU, Triton code is
interpreted, and a step takes seconds.
"""


def run(name: str, file: Path, options: list[str]) -> int:
    try:
        module = find_exercise(name).module
        plug_in(module, file)
        return minivllm(["demo", "--attention-backend", BACKENDS.get(module, "auto"), *options])
    except Exception as error:  # raised by the student's code, or by the engine because of it
        what = clean(f"{type(error).__name__}{where_in(file, error)}: {error}")
        print(f"minivllm: The engine cannot run with {file}: {what}", file=sys.stderr)
        print(f"`minivllm exercise check {name}` shows the smallest failing case.", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
