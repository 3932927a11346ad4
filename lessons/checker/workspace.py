"""The student's folder: the stub, the README, the visible tests, and a note for AI assistants.

The folder is outside the repository, so that solutions are not committed by accident. A student's
work is never overwritten: `start` raises an error, and `reset` keeps the old file.
"""

import os
import shlex
import shutil
from pathlib import Path

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.bugs.judge import ANSWER_STUB
from minivllm.lessons.checker.catalogue import FOLDER, Exercise, exercises
from minivllm.lessons.checker.holes import stub


class Workspace:
    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or default_root()).expanduser().absolute()
        self._option = "" if root is None else f" --workspace {shlex.quote(str(root))}"

    def command(self, action: str, exercise: Exercise) -> str:
        """What to type for this exercise in this folder."""
        return f"minivllm exercise {action} {exercise.name}{self._option}"

    def folder(self, exercise: Exercise) -> Path:
        return self.root / exercise.name

    def file(self, exercise: Exercise) -> Path:
        return self.folder(exercise) / exercise.student_file

    def is_started(self, exercise: Exercise) -> bool:
        return self.file(exercise).is_file()

    def started(self) -> list[Exercise]:
        return [exercise for exercise in exercises() if self.is_started(exercise)]

    def submission(self, exercise: Exercise) -> Path:
        """The file. Raises `ExerciseError` if the exercise is not started."""
        if not self.is_started(exercise):
            start = f"`{self.command('start', exercise)}`"
            raise ExerciseError(f"There is no {self.file(exercise)}: create it with {start}.")
        return self.file(exercise)

    def start(self, exercise: Exercise) -> Path:
        """Create the exercise's folder and return the file to edit."""
        file, folder = self.file(exercise), self.folder(exercise)
        if (self.root / "pyproject.toml").exists() or self.root.is_relative_to(FOLDER.parents[1]):
            outside = "give a folder outside with --workspace, so that no solution is committed"
            raise ExerciseError(f"{self.root} is a repository: {outside}.")
        if file.is_file():
            again = f"or start again with `{self.command('reset', exercise)}`"
            raise ExerciseError(f"{file} already exists: continue with it, {again}.")
        given = [path.name for path in exercise.recordings] or ["visible_test.py"]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in given:
                shutil.copyfile(exercise.folder / name, folder / name)
            (folder / "README.md").write_text(exercise.readme, encoding="utf-8")
            shutil.copyfile(FOLDER / "assistants.md", folder / "AGENTS.md")
            file.write_text(start_of(exercise), encoding="utf-8")
        except OSError as error:
            raise ExerciseError(f"{folder} cannot be written: {error.strerror}.") from error
        return file

    def reset(self, exercise: Exercise) -> Path:
        """Replace the student's file by the stub. Returns the new path of the old file."""
        file, number = self.submission(exercise), 1
        while (kept := file.with_suffix(f".before-{number}{file.suffix}")).exists():
            number += 1
        file.rename(kept)
        file.write_text(start_of(exercise), encoding="utf-8")
        return kept

    def first_todo(self, exercise: Exercise) -> int | None:
        lines = self.file(exercise).read_text(encoding="utf-8", errors="replace").splitlines()
        todo = "step = 0" if exercise.finds_bug else f"# TODO {exercise.name}"
        return next((number for number, line in enumerate(lines, 1) if todo in line), None)


def start_of(exercise: Exercise) -> str:
    return ANSWER_STUB if exercise.finds_bug else stub(exercise)


def default_root() -> Path:
    return Path(os.environ.get("MINIVLLM_EXERCISES") or Path.home() / "minivllm-exercises")
