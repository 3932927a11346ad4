"""Runs `minivllm demo` in a process where a student's code replaces the engine's.

`minivllm exercise demo` starts this file as `python -m minivllm.cli.course.exercise_demo PATH NAME
[options of demo]`. PATH is the student's file, or a folder of pieces. The code is replaced before
the engine is imported: `exercise_scenario` imports it and plays.
"""

import sys
from pathlib import Path

from minivllm.cli import status_of
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.child.imports import import_files, where_in
from minivllm.text import clean


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
    # Late: it imports the engine, and the student's modules must be there first.
    from minivllm.cli.course.exercise_scenario import play

    return play(names, options, of_pieces=of_pieces)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]))
