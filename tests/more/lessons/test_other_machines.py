"""The course on other machines: without Triton (support/without_triton), offline, a chat model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from more.identity.test_recordings import require_equal
from support.docs.lesson_student import take
from support.model.needs import NO_TRITON
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.tool_modules import load_tool

from minivllm.lessons.course.library import find_lesson, lessons
from minivllm.lessons.shown.recorded import recorded
from minivllm.lessons.teacher.lesson_engine import ModelShelf
from minivllm.runtime.attention.xray import recordings

TESTS = Path(__file__).parents[2]
ON_KERNELS = {lesson.number for lesson in lessons() if lesson.track == "kernels"}
COMMANDS = {
    "lesson 17": "lesson 17 --plain --auto",
    "next": "exercise next",
    "cpu": "generate --model tiny-random --max-tokens 2 x",
    # these need Triton
    "smollm2": "lesson 17 --plain --auto --model smollm2",
    "bench": "bench kernels --interpret",
    "start": "exercise start paged-attention-triton",
    "check": "exercise check paged-attention-triton",
    "demo": "exercise demo paged-attention-triton",
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


def run_without_triton(*command: str, home: Path) -> subprocess.CompletedProcess:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MINIVLLM_PROGRESS": str(home / "progress.json"),
        "MINIVLLM_EXERCISES": str(home / "work"),
        "PYTHONPATH": os.pathsep.join([str(TESTS / "support/without_triton"), str(TESTS)]),
    }
    child = subprocess.run(
        [sys.executable, *command], env=environment, cwd=home, capture_output=True, text=True
    )
    assert child.returncode == 0, child.stderr
    return child


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("home")


def test_without_triton_the_course_can_be_taken_to_its_end_by_a_student_who_is_always_wrong(home):
    child = run_without_triton(str(TESTS / "support/docs/lesson_student.py"), home=home)
    assert child.stderr.split()[-1] == "False", "Triton was imported after all"
    course = {int(number): taken for number, taken in json.loads(child.stdout).items()}
    assert course.keys() == {lesson.number for lesson in lessons()}
    for number, taken in course.items():
        assert "This is the end of" in taken["end"]
        assert len(taken["truths"]) == taken["num_refused"] == taken["num_wrong"] > 2
        assert ("not installed here" in taken["first_page"]) is (number in ON_KERNELS)
        recorded_as = ["this"] if number in ON_KERNELS else []
        assert taken["recorded"] == recorded_as, "the recording matches this decode"


def test_the_shipped_recordings_are_what_the_kernels_do_now():
    """Except for the last digits of floats, which depend on the processor."""
    pytest.importorskip("triton", reason=NO_TRITON)
    traces, kernels = load_tool("pictures/record_kernels.py").record()
    assert kernels == recorded()
    assert len(traces) == len(recordings()) == len(ON_KERNELS)
    for made, shipped in zip(traces, recordings(), strict=True):
        require_equal(msgspec.to_builtins(made), msgspec.to_builtins(shipped), "trace")


def test_commands_that_need_triton_say_so_in_one_sentence_and_the_others_work(home):
    commands = {name: line.split() for name, line in COMMANDS.items()}
    exercise = home / "work/paged-attention-triton"
    exercise.mkdir(parents=True)
    (exercise / "decode_naive.py").write_text("")
    child = run_without_triton("-c", RUN_COMMANDS, json.dumps(commands), home=home)
    results = json.loads(child.stdout)
    status, out, err = results.pop("lesson 17")
    assert status == 0 and "end of" in out and "Triton is not installed" in err
    status, out, _ = results.pop("next")
    assert status == 0 and "paged-attention-triton" not in out
    assert results.pop("cpu")[0] == 0
    for name, (status, out, err) in results.items():
        assert status != 0 and out == "", name
        assert err.startswith("minivllm: ") and "needs Triton" in err and err.count("\n") == 1, name


def test_a_lesson_is_readable_with_an_empty_home_and_no_network(tmp_path):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MINIVLLM_")}
    env = clean | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "minivllm", "lesson", "4", "--auto", "--plain"]
    printed = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, encoding="utf-8")
    assert printed.returncode == 0, printed.stderr
    assert "This is the end of" in printed.stdout
    assert "model fetch" not in printed.stderr, "nothing to download"


def test_the_lesson_about_tokens_holds_on_the_chat_model_too(smollm2):
    assert "the end of" in take(find_lesson("tokens"), ModelShelf("smollm2", smollm2)).end
