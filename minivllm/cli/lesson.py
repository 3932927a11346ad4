"""`minivllm lesson`: a lesson on the real engine, in the dashboard, in any terminal, or as a page of Markdown.

Without a number it lists the course and what has been read of it. Where there is no terminal a lesson is printed, so the same command
works in a pipe. The easy thing to get wrong is the wait: the first page must come at once, so a lesson takes the tiny model
unless it is about text and a real one is already here.
"""

import argparse
import sys

from minivllm.cli.dashboard import add_dashboard_options, make_app, run_app
from minivllm.cli.loading import loading
from minivllm.cli.terminal import note, show, terminal_attached
from minivllm.errors import LessonError
from minivllm.events.whole_file import write_whole
from minivllm.lessons.lesson_engine import ModelShelf
from minivllm.lessons.lesson_player import LessonPlayer
from minivllm.lessons.library import find_lesson, lessons
from minivllm.lessons.progress import LessonProgress, Progress
from minivllm.lessons.script import Lesson

INSTANT_MODEL = "tiny-random"
READABLE_MODEL = "smollm2"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lesson", nargs="?", metavar="LESSON", help="its number or name; without it, the list of all")
    parser.add_argument("--plain", action="store_true", help="print the lesson instead of opening the dashboard")
    parser.add_argument("--auto", action="store_true", help="print all of it at once, with no pauses and no questions")
    parser.add_argument("--transcript", metavar="FILE", help="write all of it into FILE, as Markdown")
    parser.add_argument("--from", dest="first", type=int, default=1, metavar="N", help="begin at page N")
    parser.add_argument(
        "--model",
        metavar="NAME",
        help=f"what the engine runs (default: {INSTANT_MODEL}; where the text matters, {READABLE_MODEL} if it is here)",
    )
    add_dashboard_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.lesson is None:
        _print_list()
        return 0
    lesson = find_lesson(args.lesson)
    answers_itself = args.auto or args.transcript is not None
    if args.transcript is not None:
        open(args.transcript, "ab").close()  # if it cannot be written, say so before anything runs
    progress = None if answers_itself else Progress()
    if progress is not None:
        progress.read()  # a damaged file is told before the lesson
    shelf = ModelShelf(_model(args.model, lesson))
    with loading(shelf.name):
        player = LessonPlayer(lesson, shelf, progress=progress)
    try:
        _go_to(player, args.first)
        if args.transcript is not None:
            from minivllm.lessons.transcript import transcript

            write_whole(args.transcript, transcript(player))
            note(f"Wrote {args.transcript}.")
        elif args.auto or args.plain or not terminal_attached():
            from minivllm.lessons.plain import PlainLesson

            PlainLesson(player, sys.stdin, show, auto=args.auto, ascii=args.ascii).run()
        else:
            _in_dashboard(args, player)
    finally:
        player.close()
    return 0


def _model(asked: str | None, lesson: Lesson) -> str:
    if asked is not None:
        return asked
    if not lesson.text_matters:
        return INSTANT_MODEL
    from minivllm.runtime.model_store import list_models

    here = any(listing.name == READABLE_MODEL and listing.path is not None for listing in list_models())
    if not here:
        note(f"This lesson reads better with a real model: minivllm model fetch {READABLE_MODEL}")
    return READABLE_MODEL if here else INSTANT_MODEL


def _go_to(player: LessonPlayer, page: int) -> None:
    """Open the pages before `page`; questions on the way are passed over."""
    if page < 1:
        raise LessonError(f"--from must be the number of a page, at least 1; got {page}.")
    while player.page.number < page:
        if player.over:
            raise LessonError(f"This lesson has {player.page.number} pages: --from must be one of them; got {page}.")
        player.pass_over()


def _in_dashboard(args: argparse.Namespace, player: LessonPlayer) -> None:
    app = make_app(args, player.page.stage.source, lesson=player)
    run_app(app)


def _print_list() -> None:
    done = Progress().read().lessons
    width = max(len(lesson.title) for lesson in lessons())
    for lesson in lessons():
        print(
            f"{lesson.number:>3}  {lesson.name:<20}  {lesson.title:<{width}} {lesson.minutes:>2} min  {_state(done.get(lesson.name))}"
        )
    print("\nminivllm lesson 1 begins. Each runs the real engine, and asks before it shows.")


def _state(progress: LessonProgress | None) -> str:
    if progress is None:
        return ""
    read = "done" if progress.finished else f"read up to page {progress.pages_read}"
    if not progress.first_answers:
        return read
    return f"{read}, {progress.num_right} of {len(progress.first_answers)} right at first"
