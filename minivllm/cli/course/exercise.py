"""`minivllm exercise`: start an exercise, check it, see what went wrong; grade a class.

Exit status: 0 passed, 1 failed, 2 could not run. Without a name, an action uses the first exercise
in course order that is started but not passed.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from minivllm.cli import INTERRUPTED, USAGE_ERROR, Parser, add_command, main, recordings
from minivllm.cli.course.exercise_grades import add_grade_options, grade_all, report_progress
from minivllm.cli.dashboard import add_dashboard_options, make_app, run_app
from minivllm.cli.terminal import fill, has_utf8, note, terminal_attached
from minivllm.errors import ExerciseError, LessonError
from minivllm.lessons.checker import catalogue
from minivllm.lessons.checker.bugs.judge import BugAnswer, read_answer
from minivllm.lessons.checker.check import check, run_behaviours
from minivllm.lessons.checker.child.session import Worker
from minivllm.lessons.checker.dev_check import dev_check
from minivllm.lessons.checker.diff import write_difference
from minivllm.lessons.checker.pieces import collect, digest_of, write_modules
from minivllm.lessons.checker.report import report as lines_of
from minivllm.lessons.checker.watch import watch
from minivllm.lessons.checker.workspace import Workspace
from minivllm.lessons.teacher.progress import Progress
from minivllm.lessons.teacher.prompts import LESSON_MODEL
from minivllm.text import clean, plural
from minivllm.tui.sources.replay import ReplaySource
from minivllm.tui.state.model import MODELS


def add_arguments(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    parser.set_defaults(run=_list, workspace=None)
    parsers = {}
    where = "folder of your files (default: ~/minivllm-exercises)"
    for name, (act, summary, named, without) in ACTIONS.items():
        action = parsers[name] = add_command(actions, name, summary)
        action.set_defaults(run=act)
        action.add("--workspace DIR", where, type=Path)
        if named:
            action.add("NAME", f"an exercise (default: {without})", nargs=named)
    watching = "check again after each save, with keys for hints and more"
    parsers["check"].add("--watch", watching)
    for name in ("check", "diff"):
        parsers[name].add("--seed SEED", "seed for the random cases", type=int, default=0)
    parsers["demo"].add("--model MODEL", "the model to run", default=LESSON_MODEL)
    parsers["demo"].add("--all-passed", "run all your passed exercises together in one engine")
    parsers["demo"].add("--headless", "print plain lines instead of opening the dashboard")
    add_dashboard_options(parsers["demo"])
    add_dashboard_options(parsers["diff"])
    parsers["report"].add("--json", "as one line of JSON")
    add_grade_options(parsers["grade"])


def _passed() -> set[str]:
    return {name for name, progress in Progress().read().exercises.items() if progress.passed}


def _chosen(args: argparse.Namespace) -> catalogue.Exercise:
    if args.name:
        return catalogue.find_exercise(args.name)
    passed, started = _passed(), Workspace(args.workspace).started()
    if not started:
        ways = "`minivllm exercise list` lists them, `start NAME` starts one"
        raise ExerciseError(f"You have not started an exercise yet: {ways}.")
    return next((exercise for exercise in started if exercise.name not in passed), started[-1])


# ---- choosing and beginning ----


def _list(args: argparse.Namespace) -> int:
    passed, workspace = _passed(), Workspace(args.workspace)
    following = catalogue.next_exercise(passed)
    sign = "▶" if has_utf8() else ">"
    for part, its_exercises in catalogue.by_part().items():
        print(f"\n{part:<22} lesson")
        for exercise in its_exercises:
            begun = " (begun)" if workspace.is_started(exercise) else ""
            state = " (passed)" if exercise.name in passed else begun
            mark = sign if exercise is following else " "
            place = f"{exercise.name:<22} {exercise.lesson:>3} {exercise.minutes:>4} min"
            print(fill(f"{mark} {place}  {exercise.title}{state}", 38))
    if following is not None:
        print(f"\nNext: minivllm exercise start {following.name}")
    return 0


def _start(args: argparse.Namespace) -> int:
    return _begin(args, catalogue.find_exercise(args.name or catalogue.exercises()[0].name))


def _next(args: argparse.Namespace) -> int:
    exercise, workspace = catalogue.next_exercise(_passed()), Workspace(args.workspace)
    if exercise is None:
        print("You have passed every exercise: `minivllm exercise demo --all-passed` runs them.")
    elif workspace.is_started(exercise):
        print(f"Your current exercise is {exercise.name}: {workspace.file(exercise)}")
    else:
        return _begin(args, exercise)
    return 0


def _begin(args: argparse.Namespace, exercise: catalogue.Exercise) -> int:
    exercise.require_what_it_needs()
    workspace = Workspace(args.workspace)
    file = workspace.start(exercise)
    about = f"lesson {exercise.lesson}, {exercise.level}, about {exercise.minutes} minutes"
    print(fill(f"{exercise.title} ({about})"))
    print(f"Read   {file.with_name('README.md')}")
    if exercise.finds_bug:
        print(f"Watch  minivllm exercise demo {exercise.name}   (opens the recording)")
    what = exercise.symbol or "step and rule"
    print(fill(f"Write  {file}, line {workspace.first_todo(exercise)}: {what}"))
    print(fill(f"Check  {workspace.command('check', exercise)}   (fails at first, as it should)"))
    return 0


def _reset(args: argparse.Namespace) -> int:
    exercise = _chosen(args)
    kept = Workspace(args.workspace).reset(exercise)
    print(f"{Workspace(args.workspace).file(exercise)} is the stub again; your file is now {kept}.")
    return 0


# ---- checking ----


def _check(args: argparse.Namespace) -> int:
    exercise = _chosen(args)
    if not args.watch:
        return _check_once(args, exercise)
    own = [] if args.workspace is None else [f"--workspace={args.workspace}"]
    last = USAGE_ERROR

    def run_check() -> None:
        nonlocal last
        last = main(["exercise", "check", exercise.name, f"--seed={args.seed}", *own])
        if last == INTERRUPTED:
            raise KeyboardInterrupt

    def reset_if_sure() -> None:
        answer = input("Restore the stub (your file is kept under another name)? y/n ")
        if answer.strip().lower() == "y":
            main(["exercise", "reset", exercise.name, *own])

    def command(*words: str) -> Callable[[], object]:
        return lambda: main(["exercise", *words, *own]) == INTERRUPTED

    hint, diff = command("hint", exercise.name), command("diff", exercise.name)
    keys = {"x": reset_if_sure, "h": hint, "d": diff, "l": command("list"), "n": command("next")}
    watch(Workspace(args.workspace).submission(exercise), run_check, keys)
    return last


def _check_once(args: argparse.Namespace, exercise: catalogue.Exercise) -> int:
    workspace = Workspace(args.workspace)
    result = check(exercise, workspace.submission(exercise), seed=args.seed)
    print(*map(fill, lines_of(result, workspace.first_todo(exercise))), sep="\n")
    if not (result.passed or result.is_untouched):
        with suppress(ExerciseError):  # no run with events fails, so there is none to show
            found = write_difference(result, workspace.folder(exercise) / ".diff")
            page = found.engine.with_name("difference.html")
            recordings.write_page(page, [found.engine, found.yours], found.step, whole=False)
            print(f"In a browser, at step {found.step}: {page.resolve().as_uri()}")
    try:
        Progress().note_check(exercise.name, result.passed, digest_of(exercise, result.file))
    except LessonError as error:  # the progress is not saved, but the check has a result
        note(f"minivllm: {error}")
    if result.passed and (later := catalogue.next_exercise(_passed() | {exercise.name})):
        print(f"Next: minivllm exercise start {later.name}")
    return result.exit_status


def _hint(args: argparse.Namespace) -> int:
    exercise = _chosen(args)
    taken = Progress().read().exercises.get(exercise.name)
    number = min((taken.hints if taken else 0) + 1, len(exercise.hints))
    Progress().note_hint(exercise.name, number)
    for index, hint in enumerate(exercise.hints[:number], 1):
        print(fill(f"Hint {index} of {len(exercise.hints)}: {hint}"))
    return 0


def _diff(args: argparse.Namespace) -> int:
    exercise, workspace = _chosen(args), Workspace(args.workspace)
    if exercise.finds_bug:
        answer = read_answer(exercise, workspace.submission(exercise))
        step = answer.step if isinstance(answer, BugAnswer) else 1
        return _show(args, exercise.recordings, step, exercise.title)
    file = workspace.submission(exercise)
    with Worker(exercise) as worker, worker.opened(file) as ask:
        result = run_behaviours(exercise, file, ask, args.seed)
    found = write_difference(result, workspace.folder(exercise) / ".diff")
    print(fill(found.sentence))
    return _show(args, [found.engine, found.yours], found.step, found.sentence)


def _show(args: argparse.Namespace, paths: list[Path], step: int, watch: str) -> int:
    """Open one recording in the dashboard, or two beside each other, at the end of a step."""
    if not terminal_attached():
        logs, key = " --with ".join(map(str, paths)), "   (key 6)" * (len(paths) > 1)
        print(f"In a terminal: minivllm replay {logs} --step {step}{key}")
        return 0
    source, *others = (ReplaySource(path, codec=MODELS) for path in paths)
    beside = {"other": others[0], "screen": "compare"} if others else {}
    run_app(make_app(args, source, watch=watch, state="paused", first_step=step, **beside))
    return 0


def _demo(args: argparse.Namespace) -> int:
    dashboard = ["--model", args.model]
    dashboard += [f"--{name}" for name in ("ascii", "light", "headless") if getattr(args, name)]
    dashboard += ["--keys", args.keys] if args.keys else []
    if args.all_passed:
        if args.name:
            raise ExerciseError("--all-passed runs all exercises: leave out the name of one.")
        return _demo_of_all(args, dashboard)
    exercise = _chosen(args)
    exercise.require_what_it_needs()
    if exercise.finds_bug:
        return _show(args, exercise.recordings, 1, exercise.title)
    if not exercise.runs_in_engine:
        alone = f"`minivllm exercise check {exercise.name}` runs it by itself"
        raise ExerciseError(f"No engine runs {exercise.student_file}: {alone}.")
    return _demo_with(Workspace(args.workspace).submission(exercise), exercise.name, dashboard)


def _demo_of_all(args: argparse.Namespace, dashboard: list[str]) -> int:
    """Run the demo with all passed pieces together in one engine."""
    pieces, left_out = collect(Workspace(args.workspace), Progress().read().exercises)
    for name, why in left_out.items():
        note(clean(f"Without {name}: {why}."))
    if not pieces:
        start = "`minivllm exercise next` starts one, and `check` notes that it passes"
        raise ExerciseError(f"You have passed no exercise yet that an engine can run: {start}.")
    names = [exercise.name for exercise, _ in pieces]
    note(f"Putting {plural(len(pieces), 'piece')} together: {', '.join(names)} ...")
    with tempfile.TemporaryDirectory(prefix="minivllm-pieces-") as folder:
        write_modules(pieces, Path(folder))
        return _demo_with(Path(folder), ",".join(names), dashboard)


def _demo_with(path: Path, names: str, dashboard: list[str]) -> int:
    """Run the demo in a fresh process: an engine that is imported once cannot be replaced."""
    command = [sys.executable, "-m", "minivllm.cli.course.exercise_demo", str(path), names]
    return subprocess.run([*command, *dashboard]).returncode


def _dev_check(args: argparse.Namespace) -> int:
    chosen = [catalogue.find_exercise(name) for name in args.name] or catalogue.exercises()
    faults = [sentence for exercise in chosen for sentence in dev_check(exercise)]
    print(*faults, f"{len(chosen)} exercises, {len(faults)} faults.", sep="\n")
    return 1 if faults else 0


_NONE, _CURRENT, _ALL = ("", ""), ("?", "your current one"), ("*", "all")
ACTIONS: dict[str, tuple[Callable[[argparse.Namespace], int], str, str, str]] = {
    "list": (_list, "list all exercises and your progress", *_NONE),
    "start": (_start, "copy an exercise into your workspace", "?", "the first"),
    "check": (_check, "run the engine with your code and compare it with the original", *_CURRENT),
    "hint": (_hint, "show the next of three hints", *_CURRENT),
    "demo": (_demo, "run the dashboard's demo with your code", *_CURRENT),
    "diff": (_diff, "open the dashboard at the first wrong step", *_CURRENT),
    "reset": (_reset, "restore the stub; your file is kept under another name", *_CURRENT),
    "next": (_next, "start the next exercise that you have not passed", *_NONE),
    "report": (report_progress, "list what you passed, with numbers of checks and hints", *_NONE),
    "grade": (grade_all, "check the submissions of a class", *_ALL),
    "dev-check": (_dev_check, "check the exercises themselves (for authors)", *_ALL),
}
"""Name -> what it does, its summary, argparse's `nargs` for exercises, and what it does without."""
