"""The demo on a student's code: a process in which their module is the engine's, and then `minivllm demo`.

Started by `minivllm exercise demo` as `python -m minivllm.lessons.exercises.demo_on NAME FILE [options of demo]`. It has no limits but
those of the person who sits before it. The easy thing to get wrong is the order: the engine is imported only afterwards.
"""

import sys
from pathlib import Path

from minivllm.cli import main as minivllm
from minivllm.lessons.exercises.catalogue import find_exercise
from minivllm.lessons.exercises.plug import plug_in

if __name__ == "__main__":
    name, file, *options = sys.argv[1:]
    plug_in(find_exercise(name).module, Path(file))
    sys.exit(minivllm(["demo", *options]))
