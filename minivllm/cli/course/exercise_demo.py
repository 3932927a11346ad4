"""The demo on a student's code: a process in which their module is the engine's, and then `minivllm
demo`.

Started by `minivllm exercise demo` as `python -m minivllm.cli.course.exercise_demo NAME FILE
[options of demo]`. It has no limits but those of the person who sits before it. The easy thing to
get wrong is the order: the engine is imported only afterwards. And an engine that has kernels would
leave a student's attention in torch unused, so the backend that runs it is asked for by name.
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
"""A student's module -> the attention backend that runs it. On a CPU Triton interprets, and a step
takes seconds.
"""


def run(name: str, file: Path, options: list[str]) -> int:
    """The demo, as far as the student's code carries it."""
    try:
        module = find_exercise(name).module
        plug_in(module, file)
        return minivllm(["demo", "--attention-backend", BACKENDS.get(module, "auto"), *options])
    except Exception as error:  # the student's, or the engine's from what it was given
        what = clean(f"{type(error).__name__}{where_in(file, error)}: {error}")
        print(f"minivllm: The engine cannot run on {file}: {what}", file=sys.stderr)
        print(f"`minivllm exercise check {name}` shows the smallest case.", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
