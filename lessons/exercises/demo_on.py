"""The demo on a student's code: a process in which their module is the engine's, and then `minivllm demo`.

Started by `minivllm exercise demo` as `python -m minivllm.lessons.exercises.demo_on NAME FILE [options of demo]`. It has no limits but
those of the person who sits before it. The easy thing to get wrong is the order: the engine is imported only afterwards.
"""

import sys
from pathlib import Path

from minivllm.cli import main as minivllm
from minivllm.lessons.exercises.catalogue import find_exercise
from minivllm.lessons.exercises.plug import plug_in, where_in
from minivllm.tui.text import clean


def run(name: str, file: Path, options: list[str]) -> int:
    """The demo, as far as the student's code carries it."""
    try:
        plug_in(find_exercise(name).module, file)
        return minivllm(["demo", *options])
    except Exception as error:  # the student's, or the engine's from what it was given
        what = clean(f"{type(error).__name__}{where_in(file, error)}: {error}")
        print(f"minivllm: The engine cannot run on {file}: {what}", file=sys.stderr)
        print(f"`minivllm exercise check {name}` shows the smallest case.", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
