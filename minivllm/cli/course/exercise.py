"""`minivllm exercise`: start an exercise, check it, see what went wrong; grade a class.

Exit status: 0 passed, 1 failed, 2 could not run. Without a name, an action uses the first exercise
in course order that is started but not passed.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from minivllm.cli.course.capstone import demo_of_all
from minivllm.cli.course.exercise_grades import add_grade_options, grade_all, report_progress
from minivllm.cli.dashboard import add_dashboard_options, make_app, run_app
from minivllm.cli.terminal import terminal_attached
from minivllm.errors import ExerciseError, LessonError
from minivllm.lessons.checker.bugs.judge import step_of_answer
from minivllm.lessons.checker.catalogue import Exercise, exercises, find_exercise
from minivllm.lessons.checker.check import check
from minivllm.lessons.checker.dev_check import dev_check
from minivllm.lessons.checker.diff import write_difference
from minivllm.lessons.checker.pieces import digest_of
from minivllm.lessons.checker.report import report as lines_of
from minivllm.lessons.checker.result import Result
from minivllm.lessons.checker.watch import watch
from minivllm.lessons.checker.workspace import Workspace
from minivllm.lessons.teacher.progress import Progress
from minivllm.lessons.teacher.prompts import LESSON_MODEL
from minivllm.tui.sources.replay import ReplaySource
from minivllm.tui.state.model import MODELS

COULD_NOT_RUN = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    add = partial(_add_action, actions)
    add("list", _list, "list all exercises and your progress")
    add("start", _start, "copy an exercise into your workspace", named="?", without="the first")
    check = add(
        "check",
        _check,
        "run the engine with your code and compare it with the original engine",
        named="?",
    )
    check.add_argument(
        "--watch",
        action="store_true",
        help="check again after each save, with keys for hints and more",
    )
    check.add_argument(
        "--seed", type=int, default=0, help="seed for the random cases (default: %(default)s)"
    )
    add("hint", _hint, "show the next of three hints", named="?")
    demo = add("demo", _demo, "run the dashboard's demo with your code", named="?")
    demo.add_argument(
        "--model", default=LESSON_MODEL, help="the model to run (default: %(default)s)"
    )
    demo.add_argument(
        "--all-passed",
        action="store_true",
        help="run all your passed exercises together in one engine",
    )
    demo.add_argument(
        "--headless", action="store_true", help="print plain lines instead of opening the dashboard"
    )
    add_dashboard_options(demo)
    diff = add("diff", _diff, "open the dashboard at the first wrong step", named="?")
    diff.add_argument(
        "--seed", type=int, default=0, help="same as for check (default: %(default)s)"
    )
    add_dashboard_options(diff)
    add("reset", _reset, "restore the stub; your file is kept under another name", named="?")
    add("next", _next, "start the next exercise that you have not passed")
    report = add(
        "report", report_progress, "list what you have passed, with the number of checks and hints"
    )
    report.add_argument("--json", action="store_true", help="as one line of JSON")
    add_grade_options(
        add("grade", grade_all, "check the submissions of a class", named="*", without="all")
    )
    add(
        "dev-check",
        _dev_check,
        "check the exercises themselves (for authors)",
        named="*",
        without="all",
    )


def _add_action(
    actions: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    *,
    named: str = "",
    without: str = "your current one",
) -> argparse.ArgumentParser:
    """Add an action.

    actions: argparse's list of actions
    named: how many exercises the user may name, as argparse's `nargs`; empty for none
    without: which exercise an action without a name takes
    """
    action = actions.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        allow_abbrev=False,
    )
    action.set_defaults(run_action=run)
    action.add_argument(
        "--workspace",
        metavar="DIR",
        type=Path,
        help="folder of your files (default: ~/minivllm-exercises)",
    )
    if named:
        action.add_argument(
            "name", metavar="NAME", nargs=named, help=f"an exercise (default: {without})"
        )
    return action


def run(args: argparse.Namespace) -> int:
    try:
        return args.run_action(args)
    except ExerciseError as error:
        print(f"minivllm: {error}", file=sys.stderr)
        return COULD_NOT_RUN


def _workspace(args: argparse.Namespace) -> Workspace:
    return Workspace(args.workspace)


def _chosen(args: argparse.Namespace) -> Exercise:
    if args.name:
        return find_exercise(args.name)
    passed = Progress().read().exercises
    started = _workspace(args).started()
    for exercise in started:
        if exercise.name not in passed or not passed[exercise.name].passed:
            return exercise
    if started:
        return started[-1]
    raise ExerciseError(
        "You have not started an exercise yet: `minivllm exercise list` lists them, `start NAME`"
        " starts one."
    )


# ---- choosing and beginning ----


def _list(args: argparse.Namespace) -> int:
    done, workspace = Progress().read().exercises, _workspace(args)
    for exercise in exercises():
        if exercise.name in done and done[exercise.name].passed:
            mark = "passed"
        else:
            mark = "begun" if workspace.is_started(exercise) else ""
        print(
            f"{exercise.name:<24} lesson {exercise.lesson:>2}  {exercise.level:<8}"
            f" {exercise.minutes:>3} min  {mark:<7} {exercise.title}"
        )
    return 0


def _start(args: argparse.Namespace) -> int:
    return _begin(args, find_exercise(args.name) if args.name else exercises()[0])


def _next(args: argparse.Namespace) -> int:
    passed = Progress().read().exercises
    for exercise in exercises():
        if not exercise.obstacle and not (exercise.name in passed and passed[exercise.name].passed):
            if _workspace(args).is_started(exercise):
                print(
                    f"Your current exercise is {exercise.name}: {_workspace(args).file(exercise)}"
                )
                return 0
            return _begin(args, exercise)
    print("You have passed every exercise: `minivllm exercise demo --all-passed` runs them all.")
    return 0


def _begin(args: argparse.Namespace, exercise: Exercise) -> int:
    exercise.require_what_it_needs()
    workspace = _workspace(args)
    file = workspace.start(exercise)
    print(
        f"{exercise.title} (lesson {exercise.lesson}, {exercise.level}, about {exercise.minutes}"
        " minutes)"
    )
    print(f"Read   {file.with_name('README.md')}")
    if exercise.is_hunt:
        print(f"Watch  minivllm exercise demo {exercise.name}   (opens the recording)")
    what = exercise.symbol or "step and rule"
    print(f"Write  {file}, line {workspace.first_todo(exercise)}: {what}")
    print(f"Check  minivllm exercise check {exercise.name}   (it fails at first, as it should)")
    return 0


def _reset(args: argparse.Namespace) -> int:
    exercise = _chosen(args)
    kept = _workspace(args).reset(exercise)
    print(f"{_workspace(args).file(exercise)} is the stub again; your file is now {kept}.")
    return 0


# ---- checking ----


def _check(args: argparse.Namespace) -> int:
    exercise = _chosen(args)
    if not args.watch:
        return _check_once(args, exercise)
    args.name, args.ascii, args.light, args.keys, args.model = (
        exercise.name,
        False,
        False,
        None,
        LESSON_MODEL,
    )
    file = _workspace(args).submission(exercise).file
    actions = {"h": _hint, "d": _diff, "l": _list, "x": _reset_if_sure, "n": _next}
    status = COULD_NOT_RUN

    def look() -> None:
        nonlocal status
        status = COULD_NOT_RUN
        status = _check_once(args, exercise)

    watch(
        file,
        lambda: _without_end(look),
        {key: lambda act=act: _without_end(act, args) and False for key, act in actions.items()},
    )
    return status


def _without_end(act: Callable[..., object], *arguments: object) -> None:
    """Print an `ExerciseError`, and continue watching."""
    try:
        act(*arguments)
    except ExerciseError as error:
        print(f"minivllm: {error}", file=sys.stderr)


def _reset_if_sure(args: argparse.Namespace) -> int:
    if (
        input("Restore the stub (your file is kept under another name)? y/n ").strip().lower()
        == "y"
    ):
        return _reset(args)
    return 0


def _check_once(args: argparse.Namespace, exercise: Exercise) -> int:
    workspace = _workspace(args)
    result = check(exercise, workspace.submission(exercise), seed=args.seed)
    for line in lines_of(result, workspace.first_todo(exercise)):
        print(line)
    if not (result.passed or result.is_untouched):
        _print_link(result, workspace.folder(exercise) / ".diff")
    try:
        Progress().note_check(exercise.name, result.passed, digest_of(exercise, result.file))
    except LessonError as error:  # the progress is not saved, but the check has a result
        print(f"minivllm: {error}", file=sys.stderr)
    return result.exit_status


def _print_link(result: Result, folder: Path) -> None:
    """Write a page with the failing run beside the engine's, if a run with events fails."""
    from minivllm.cli.recordings.web import write_page

    try:
        found = write_difference(result, folder)
    except ExerciseError:
        return  # no run with events fails
    page = folder / "difference.html"
    write_page(page, [found.engine, found.yours], found.step, whole=False)
    print(f"In a browser, at step {found.step}: {page.resolve().as_uri()}")


def _hint(args: argparse.Namespace) -> int:
    exercise = _chosen(args)
    taken = Progress().read().exercises.get(exercise.name)
    number = min((taken.hints if taken else 0) + 1, len(exercise.hints))
    Progress().note_hint(exercise.name, number)
    for index, hint in enumerate(exercise.hints[:number], 1):
        print(f"Hint {index} of {len(exercise.hints)}: {hint}")
    return 0


def _diff(args: argparse.Namespace) -> int:
    exercise, workspace = _chosen(args), _workspace(args)
    if exercise.is_hunt:
        answer = workspace.submission(exercise).file
        return _watch_recording(args, exercise, step_of_answer(exercise, answer))
    result = check(exercise, workspace.submission(exercise), seed=args.seed, diagnoses=False)
    found = write_difference(result, workspace.folder(exercise) / ".diff")
    print(found.sentence)
    if not terminal_attached():
        print(
            f"In a terminal: minivllm replay {found.engine} --with {found.yours} --step"
            f" {found.step}   (key 6)"
        )
        return 0
    a, b = (ReplaySource(path, codec=MODELS) for path in (found.engine, found.yours))
    app = make_app(
        args,
        a,
        other=b,
        watch=found.sentence,
        state="paused",
        first_step=found.step,
        screen="compare",
    )
    run_app(app)
    return 0


def _demo(args: argparse.Namespace) -> int:
    dashboard = ["--model", args.model]
    dashboard += [f"--{name}" for name in ("ascii", "light", "headless") if getattr(args, name)]
    dashboard += ["--keys", args.keys] if args.keys else []
    if args.all_passed:
        if args.name:
            raise ExerciseError("--all-passed runs all exercises: leave out the name of one.")
        return demo_of_all(args, dashboard)
    exercise = _chosen(args)
    exercise.require_what_it_needs()
    if exercise.is_hunt:
        return _watch_recording(args, exercise, step=1)
    if not exercise.runs_in_engine:
        raise ExerciseError(
            f"No engine runs {exercise.student_file}: `minivllm exercise check {exercise.name}`"
            " runs it by itself."
        )
    file = _workspace(args).submission(exercise).file
    command = [sys.executable, "-m", "minivllm.cli.course.exercise_demo", exercise.name, str(file)]
    return subprocess.run([*command, *dashboard]).returncode


def _watch_recording(args: argparse.Namespace, exercise: Exercise, step: int) -> int:
    """Open the dashboard on the recording, whether the exercise is started or not."""
    recording = exercise.recording
    if not terminal_attached():
        print(f"In a terminal: minivllm replay {recording} --step {step}")
        return 0
    source = ReplaySource(recording, codec=MODELS)
    app = make_app(args, source, watch=exercise.title, state="paused", first_step=step)
    run_app(app)
    return 0


def _dev_check(args: argparse.Namespace) -> int:
    chosen = [find_exercise(name) for name in args.name] if args.name else exercises()
    faults = 0
    for exercise in chosen:
        for sentence in dev_check(exercise):
            print(sentence)
            faults += 1
    print(f"{len(chosen)} exercises, {faults} faults.")
    return 1 if faults else 0
