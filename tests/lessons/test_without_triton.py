"""The course and the commands in processes that find no Triton (support/without_triton)."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.tool_modules import load_tool

from minivllm.lessons.checker import catalogue
from minivllm.lessons.checker.catalogue import exercises
from minivllm.lessons.course.library import lessons
from minivllm.lessons.shown.recorded import recorded
from minivllm.runtime.attention.recorded_xray import recordings

TESTS = Path(__file__).parents[1]
ON_KERNELS = {lesson.number for lesson in lessons() if lesson.watches_kernels}
COMMANDS = {
    "lesson 17": "lesson 17 --plain --auto",
    "smollm2": "lesson 17 --plain --auto --model smollm2",
    "list": "lesson",
    "bench": "bench kernels --interpret",
    "start": "exercise start paged-attention-triton",
    "check": "exercise check paged-attention-triton",
    "demo": "exercise demo paged-attention-triton",
    "next": "exercise next",
    "cpu": "generate --model tiny-random --max-tokens 2 x",
    "backend": "generate --model tiny-random --attention-backend triton x",
}
RUN_COMMANDS = """
import contextlib, io, json, sys
from minivllm.cli import main
results = {}
for name, command in json.loads(sys.argv[1]).items():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(command)
    results[name] = [status, out.getvalue(), err.getvalue()]
print(json.dumps(results))
"""


def run(*command: str, hidden: bool, home: Path) -> subprocess.CompletedProcess:
    """Run Python, without Triton if `hidden`, in its own home folder."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MINIVLLM_PROGRESS": str(home / "progress.json"),
        "MINIVLLM_EXERCISES": str(home / "work"),
        "PYTHONPATH": os.pathsep.join(
            [str(TESTS / "support" / "without_triton")] * hidden + [str(TESTS)]
        ),
    }
    child = subprocess.run(
        [sys.executable, *command], env=environment, cwd=home, capture_output=True, text=True
    )
    assert child.returncode == 0, child.stderr
    return child


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def without(home) -> dict:
    """The whole course, with every answer wrong."""
    child = run(str(TESTS / "support" / "docs" / "lesson_student.py"), hidden=True, home=home)
    assert child.stderr.split()[-1] == "False", "Triton was imported after all"
    return {int(number): taken for number, taken in json.loads(child.stdout).items()}


@pytest.fixture(scope="module")
def results(home) -> dict:
    """Exit status, standard output and standard error of each command."""
    commands = {name: line.split() for name, line in COMMANDS.items()}
    exercise = home / "work/paged-attention-triton"
    exercise.mkdir(parents=True)
    (exercise / "decode_naive.py").write_text("")
    return json.loads(run("-c", RUN_COMMANDS, json.dumps(commands), hidden=True, home=home).stdout)


@pytest.mark.parametrize("number", [lesson.number for lesson in lessons()])
def test_every_lesson_can_be_taken_to_its_end_by_a_student_who_is_always_wrong(without, number):
    taken = without[number]
    assert "This is the end of" in taken["end"]
    assert len(taken["truths"]) == taken["num_refused"] == taken["num_wrong"] > 2
    assert all(verdict.startswith("You said") for verdict in taken["verdicts"])
    assert ("not installed here" in taken["first_page"]) is (number in ON_KERNELS)
    assert taken["recorded"] == (["this"] if number in ON_KERNELS else []), (
        "the recording matches this decode"
    )


@pytest.mark.slow
def test_lessons_are_the_same_with_and_without_triton(without, home):
    """Every truth, verdict and panel: recordings equal what the kernels do here."""
    pytest.importorskip("triton")
    child = run(str(TESTS / "support" / "docs" / "lesson_student.py"), hidden=False, home=home)
    having = {int(number): taken for number, taken in json.loads(child.stdout).items()}
    told_apart = {"first_page", "recorded"}
    for number, taken in having.items():
        assert taken["recorded"] == ([None] if number in ON_KERNELS else [])
        # A kernel lesson ends with an exercise in Triton, which is offered only where it can run.
        for name in taken.keys() - told_apart - ({"end"} if number in ON_KERNELS else set()):
            assert taken[name] == without[number][name], (number, name)


def test_the_shipped_recordings_are_what_the_kernels_do_now():
    """Except for the last digits of floats, which depend on the processor."""
    pytest.importorskip("triton")
    traces, kernels = load_tool("pictures/record_kernels.py").record()
    assert kernels == recorded()
    assert len(traces) == len(recordings()) == len(ON_KERNELS)
    for made, shipped in zip(traces, recordings(), strict=True):
        assert_alike(msgspec.to_builtins(made), msgspec.to_builtins(shipped))


def assert_alike(one: object, other: object) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        assert_alike([*one.values()], [other[name] for name in one])
    elif isinstance(one, list | tuple):
        for each, its_like in zip(one, other, strict=True):
            assert_alike(each, its_like)
    else:
        assert one == (pytest.approx(other, rel=1e-3, abs=1e-4) if type(one) is float else other)


def test_a_lesson_says_first_that_it_shows_recordings_and_the_next_exercise_can_be_done(results):
    status, out, err = results["lesson 17"]
    assert status == 0 and "end of" in out
    assert "Triton is not installed" in err and "lesson 17" in err
    assert "lessons 17 and 18" in results["list"][1]
    assert results["next"][0] == 0 and "paged-attention-triton" not in results["next"][1]


@pytest.mark.parametrize("name", ["smollm2", "bench", "start", "check", "demo", "backend"])
def test_commands_that_need_triton_say_so_in_one_sentence_before_they_begin(results, name):
    status, out, err = results[name]
    assert status != 0
    assert out == ""
    assert err.startswith("minivllm: ") and "needs Triton" in err
    assert err.count("\n") == 1


def test_a_cpu_engine_neither_needs_nor_imports_triton(results, home):
    assert results["cpu"][0] == 0
    code = (
        "import sys, minivllm; llm = minivllm.LLM(model='tiny-random', device='cpu');"
        " llm.generate('x', minivllm.SamplingParams(max_tokens=2), use_tqdm=False); print('triton'"
        " in sys.modules)"
    )
    assert run("-c", code, hidden=False, home=home).stdout.split()[-1] == "False"


@pytest.mark.parametrize(
    ("page", "before", "after"),
    [
        ("teach/index.md", "Macs and ARM laptops?", "\n\n"),
        ("teach/index.md", "**Triton**:", "."),
        ("start/index.md", "the installation includes Triton", "\n\n"),
    ],
)
def test_a_page_that_speaks_of_triton_names_the_exercises_that_need_it(
    monkeypatch, page, before, after
):
    monkeypatch.setattr(
        catalogue, "find_spec", lambda name: None if name == "triton" else find_spec(name)
    )
    text = (TESTS.parent / "docs" / page).read_text(encoding="utf-8")
    impossible = {one.name for one in exercises() if one.obstacle}
    named = set(re.findall(r"`([a-z-]+)`", text.partition(before)[2].partition(after)[0]))
    assert impossible and named & {one.name for one in exercises()} == impossible
