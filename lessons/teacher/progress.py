"""`Progress`: a learner's progress, in one small file in the user's data folder.

Only first answers count, because they show what the learner believed.

Two programs can write the file, and a laptop can be closed at any time. So each change reads the
file again, writes a copy and moves the copy into place. An unreadable file is never overwritten.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from minivllm.errors import LessonError
from minivllm.events.recording.whole_file import write_whole


class FirstAnswer(msgspec.Struct):
    given: str
    right: bool


class Place(msgspec.Struct):
    page: int
    answers: list[str] = []
    """The answer to each question so far; an empty text if the question was skipped."""


class LessonProgress(msgspec.Struct):
    pages_read: int = 0
    finished: bool = False
    first_answers: dict[str, FirstAnswer] = {}
    """By question number: `1`, `2`, ..."""
    left_at: Place | None = None
    """None if the lesson was never begun, or if it was finished."""

    @property
    def num_right(self) -> int:
        return sum(answer.right for answer in self.first_answers.values())


class ExerciseProgress(msgspec.Struct):
    hints: int = 0
    """Number of the last hint that was shown."""
    checks: int = 0
    passed: bool = False
    passed_file: str = ""
    """Identifies the file that passed last, so that it need not be checked again."""


class ProgressFile(msgspec.Struct):
    version: int = 1
    lessons: dict[str, LessonProgress] = {}
    exercises: dict[str, ExerciseProgress] = {}


def default_path() -> Path:
    """`$MINIVLLM_PROGRESS`, or `minivllm/progress.json` in `$XDG_DATA_HOME` (`~/.local/share`)."""
    if chosen := os.environ.get("MINIVLLM_PROGRESS"):
        return Path(chosen).expanduser()
    xdg = Path(os.environ.get("XDG_DATA_HOME", ""))
    data_home = xdg if xdg.is_absolute() else Path.home() / ".local/share"
    return data_home / "minivllm/progress.json"


class Progress:
    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()

    def read(self) -> ProgressFile:
        """Read the file; empty if there is none. Raises `LessonError` if it is unreadable."""
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
                f"{self.path} is damaged and was not changed: move it away to start a new"
                f" one ({error})."
            ) from error

    @contextmanager
    def change(self) -> Iterator[ProgressFile]:
        """Read the file, let the caller change it, and write it. Raises `LessonError`."""
        file = self.read()
        yield file
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, msgspec.json.format(msgspec.json.encode(file)) + b"\n")
        except OSError as error:
            raise LessonError(f"{self.path} cannot be written: {error.strerror}.") from error

    # ---- lessons ----

    def note_page(self, lesson: str, page: int, last: bool, answers: Sequence[str] = ()) -> None:
        """Note a page. last: it is the lesson's last page; answers: the answers up to this page"""
        with self.change() as file:
            entry = file.lessons.setdefault(lesson, LessonProgress())
            entry.pages_read = max(entry.pages_read, page)
            entry.finished |= last
            entry.left_at = None if last else Place(page, list(answers))

    def note_answer(self, lesson: str, question: str, given: str, right: bool) -> None:
        """Note an answer. Only the first answer to a question is stored."""
        with self.change() as file:
            entry = file.lessons.setdefault(lesson, LessonProgress())
            entry.first_answers.setdefault(question, FirstAnswer(given, right))

    # ---- exercises ----

    def note_hint(self, exercise: str, hint: int) -> None:
        with self.change() as file:
            entry = file.exercises.setdefault(exercise, ExerciseProgress())
            entry.hints = max(entry.hints, hint)

    def note_check(self, exercise: str, passed: bool, digest: str = "") -> None:
        """Note a check; a passed exercise stays passed. digest: identifies the file that passed"""
        with self.change() as file:
            entry = file.exercises.setdefault(exercise, ExerciseProgress())
            entry.checks += 1
            entry.passed |= passed
            entry.passed_file = digest if passed else entry.passed_file
