"""`Progress`: what a learner has done so far, in one small file among their data.

First answers, how far each lesson was read, hints taken and exercises passed. Of an answer only the
first counts: it is the one that tells what somebody believed. The easy thing to get wrong is the
file: two programs may write it and a laptop may be shut in between, so it is read again before each
change, written beside itself and moved into place; and what cannot be read is never written over.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from minivllm.errors import LessonError
from minivllm.events.recording.whole_file import write_whole


class FirstAnswer(msgspec.Struct):
    """What somebody answered when they were asked for the first time."""

    given: str
    right: bool


class Place(msgspec.Struct):
    """Where a lesson was left."""

    page: int
    answers: list[str] = []
    """To each question on the way, as it was given; empty where it was passed over."""


class LessonProgress(msgspec.Struct):
    """One lesson."""

    pages_read: int = 0
    finished: bool = False
    first_answers: dict[str, FirstAnswer] = {}
    """By question: `1`, `2`, ... in their order."""
    left_at: Place | None = None
    """None if it was not begun, or read to its end since."""

    @property
    def num_right(self) -> int:
        return sum(answer.right for answer in self.first_answers.values())


class ExerciseProgress(msgspec.Struct):
    """One exercise."""

    hints: int = 0
    """The highest hint that was taken."""
    checks: int = 0
    passed: bool = False


class ProgressFile(msgspec.Struct):
    """All of it, as it is written down."""

    version: int = 1
    lessons: dict[str, LessonProgress] = {}
    """By name."""
    exercises: dict[str, ExerciseProgress] = {}
    """By name."""


def default_path() -> Path:
    """`$MINIVLLM_PROGRESS`, else `minivllm/progress.json` in `$XDG_DATA_HOME` (`~/.local/share`).

    A file where older versions kept it, `~/.minivllm/progress.json`, is moved there once.
    """
    chosen = os.environ.get("MINIVLLM_PROGRESS")
    if chosen:
        return Path(chosen).expanduser()
    xdg = Path(os.environ.get("XDG_DATA_HOME", ""))
    data_home = xdg if xdg.is_absolute() else Path.home() / ".local" / "share"
    path, old = (
        data_home / "minivllm" / "progress.json",
        Path.home() / ".minivllm" / "progress.json",
    )
    if old.exists() and not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(old, path)
            old.parent.rmdir()
        except OSError:
            # a folder with other files in it, or a place that cannot be written
            return path if path.exists() else old
    return path


class Progress:
    """The file at `path`."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()

    def read(self) -> ProgressFile:
        """As it is now; empty if there is no file. Raises `LessonError` for one that cannot be
        read.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return ProgressFile()
        except OSError as error:
            raise LessonError(f"{self.path} cannot be read: {error.strerror}.") from error
        try:
            return msgspec.json.decode(data, type=ProgressFile)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LessonError(
                f"{self.path} is damaged and was left as it is: move it away to begin a new one"
                f" ({error})."
            ) from error

    def change(self, change: Callable[[ProgressFile], None]) -> None:
        """Read, change and write. Raises `LessonError` where that is not possible."""
        file = self.read()
        change(file)
        data = msgspec.json.format(msgspec.json.encode(file)) + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, data)
        except OSError as error:
            raise LessonError(f"{self.path} cannot be written: {error.strerror}.") from error

    # ---- lessons ----

    def note_page(self, lesson: str, page: int, last: bool, answers: Sequence[str] = ()) -> None:
        """A page was read; `last`: with it the lesson. `answers`: what was said to the questions
        before it.
        """

        def change(file: ProgressFile) -> None:
            entry = file.lessons.setdefault(lesson, LessonProgress())
            entry.pages_read = max(entry.pages_read, page)
            entry.finished |= last
            entry.left_at = None if last else Place(page, list(answers))

        self.change(change)

    def note_answer(self, lesson: str, question: str, given: str, right: bool) -> None:
        """A question was answered; any but the first answer changes nothing."""
        self.change(
            lambda file: file.lessons.setdefault(lesson, LessonProgress()).first_answers.setdefault(
                question, FirstAnswer(given, right)
            )
        )

    # ---- exercises ----

    def note_hint(self, exercise: str, hint: int) -> None:
        """Hint number `hint`, from 1, was taken."""

        def change(file: ProgressFile) -> None:
            entry = file.exercises.setdefault(exercise, ExerciseProgress())
            entry.hints = max(entry.hints, hint)

        self.change(change)

    def note_check(self, exercise: str, passed: bool) -> None:
        """An exercise was checked. Once passed it stays passed."""

        def change(file: ProgressFile) -> None:
            entry = file.exercises.setdefault(exercise, ExerciseProgress())
            entry.checks += 1
            entry.passed |= passed

        self.change(change)
