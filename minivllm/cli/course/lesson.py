"""`minivllm lesson`: a lesson on the real engine, in the dashboard, as text, or as Markdown.

Without a name, the command goes on where the user left off; `minivllm lesson list` lists all
lessons and the user's progress. Without a terminal, it prints the lesson, or the list. Lessons use
the house model, which comes with minivllm, so that the first page appears at once.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial

from minivllm.cli import Parser
from minivllm.cli.course import class_answers
from minivllm.cli.dashboard import NEXT, add_dashboard_options
from minivllm.cli.loading import load_model, loading
from minivllm.cli.starting import Built, Starting
from minivllm.cli.terminal import fill, note, show, terminal_attached
from minivllm.errors import LessonError, TritonMissingError
from minivllm.events.recording.whole_file import write_whole
from minivllm.lessons.course.library import TRACKS, find_lesson, lessons
from minivllm.lessons.shown.recorded import triton_is_here
from minivllm.lessons.teacher.lesson_engine import ModelShelf
from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.plain import PlainLesson
from minivllm.lessons.teacher.progress import LessonProgress, Progress
from minivllm.lessons.teacher.prompts import LESSON_MODEL
from minivllm.lessons.teacher.script import Lesson
from minivllm.lessons.teacher.transcript import Transcript
from minivllm.tui.start import Started

LIST = "list"
"""What to type in place of a lesson for the list of all lessons."""


def add_arguments(parser: Parser) -> None:
    where = "number or name of the lesson, or `list` (default: go on where you left off)"
    parser.add("LESSON", where, nargs="?")
    parser.add("--plain", "print the lesson instead of opening the dashboard")
    parser.add("--auto", "print all of it at once, without pauses and questions")
    parser.add("--transcript FILE", "write the whole lesson into FILE, as Markdown")
    parser.add("--save-answers FILE", "write your first answers in all lessons, to hand them in")
    what = "read the files of a class in DIR, and show the answers to each question (of LESSON)"
    parser.add("--class-answers DIR", what)
    parser.add("--from N", "begin at page N", dest="first")
    parser.add("--model NAME", "the model to run", default=LESSON_MODEL)
    add_dashboard_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.save_answers is not None or args.class_answers is not None:
        return _answers(args)
    answers_itself = args.auto or args.transcript is not None
    if args.lesson == LIST or (args.lesson is None and (answers_itself or not terminal_attached())):
        _print_list(ascii=args.ascii)
        return 0
    lesson = _following() if args.lesson is None else find_lesson(args.lesson)
    if args.transcript is not None:
        open(args.transcript, "ab").close()  # fail now if the file cannot be written
    progress, resume = None if answers_itself else Progress(), None
    if progress is not None:
        done = progress.read().lessons.get(lesson.name)  # raises if the file is damaged
        if done and done.left_at and done.left_at.page > 1 and terminal_attached():
            resume = done.left_at if args.first is None else None
    if resume is not None:
        note(f"Lesson {lesson.number} continues at page {resume.page}; --from 1 starts it over.")
    _say_what_is_recorded(lesson, args.model)

    def open_lesson(shelf: ModelShelf) -> LessonPlayer:
        player = LessonPlayer(lesson, shelf, progress=progress, resume=resume)
        if args.first is not None:
            _go_to(player, args.first)
        return player

    def build(progress: Callable[[str], None]) -> Built:
        player = open_lesson(ModelShelf(args.model, load=partial(load_model, progress=progress)))
        return Started(player.page.stage.source, lesson=player), None

    if terminal_attached() and not (answers_itself or args.plain):
        starting = Starting(build)
        starting.run(args, args.model)
        if starting.result == NEXT:
            return _open_next(args, lesson)
        left = Progress().read().lessons[lesson.name]
        after = lesson if left.left_at else _following()
        note(f"Lesson {lesson.number}: {_state(left)}. To go on: minivllm lesson {after.number}")
        return 0
    with loading(args.model):
        player = open_lesson(ModelShelf(args.model))
    try:
        if args.transcript is not None:
            write_whole(args.transcript, f"# {player.title}\n\n{Transcript(player).write()}")
            note(f"Wrote {args.transcript}.")
        else:
            PlainLesson(player, sys.stdin, show, auto=args.auto, ascii=args.ascii).run()
    finally:
        player.close()
    return 0


def _open_next(args: argparse.Namespace, lesson: Lesson) -> int:
    course = lessons()
    after = course.index(lesson) + 1
    if after == len(course):
        note("That was the last lesson. Next: minivllm exercise list")
        return 0
    args.lesson, args.first = course[after].name, None
    return run(args)


def _answers(args: argparse.Namespace) -> int:
    if args.save_answers is None:
        return class_answers.show_class(args.class_answers, args.lesson, ascii=args.ascii)
    if args.lesson is not None or args.class_answers is not None:
        raise LessonError("--save-answers takes all lessons: leave out LESSON and --class-answers.")
    return class_answers.save(args.save_answers)


def _say_what_is_recorded(lesson: Lesson, model: str) -> None:
    """If Triton is missing, say that the lesson shows recorded kernels.

    Raises `TritonMissingError` if there is no recording for this model.
    """
    if lesson.track != "kernels" or triton_is_here():
        return
    if model != LESSON_MODEL:
        instead = f"leave --model out to see recordings of {LESSON_MODEL}"
        raise TritonMissingError(f"Lesson {lesson.number} with the model {model}", instead)
    shown = f"lesson {lesson.number} shows recordings of its kernels from another machine"
    note(f"Triton is not installed here, so {shown}.")


def _go_to(player: LessonPlayer, page: int) -> None:
    """Go to `page` and skip all questions on earlier pages."""
    if page < 1:
        raise LessonError(f"--from must be a page number, at least 1; got {page}.")
    while player.page.number < page:
        if player.over:
            last = player.page.number
            raise LessonError(f"--from must be one of this lesson's {last} pages; got {page}.")
        player.pass_over()


def _print_list(*, ascii: bool) -> None:
    done = Progress().read().lessons
    check = "*" if ascii else "✓"
    track = "main"
    for lesson in lessons():
        if lesson.track != track:
            track = lesson.track
            print(f"\n{TRACKS[track]}")
        entry = done.get(lesson.name)
        mark = check if entry is not None and entry.finished else " "
        state = f" ({_state(entry)})" if entry is not None else ""
        line = f"{mark} {lesson.number:>2}  {lesson.name:<15} {lesson.minutes:>3} min"
        print(fill(f"{line}  {lesson.title}{state}", 30))
    print(f"\n{'To continue' if done else 'To begin'}: minivllm lesson {_following().number}")


def _following() -> Lesson:
    """The lesson that was left unfinished, or else the first after those that are finished."""
    done, course = Progress().read().lessons, lessons()
    entries = [done.get(lesson.name, LessonProgress()) for lesson in course]
    begun = [at for at, entry in enumerate(entries) if entry.left_at is not None]
    fresh = [at for at, entry in enumerate(entries) if not entry.finished]
    furthest = max((at for at, entry in enumerate(entries) if entry.finished), default=-1)
    later = [at for at in fresh if at > furthest]
    return course[[*begun, *later, *fresh, 0][0]]


def _state(progress: LessonProgress | None) -> str:
    if progress is None:
        return ""
    left = "" if progress.left_at is None else f"at page {progress.left_at.page}"
    read = "done" if progress.finished else left or f"read up to page {progress.pages_read}"
    if not progress.first_answers:
        return read
    return f"{read}, {progress.num_right} of {len(progress.first_answers)} right at the first try"
