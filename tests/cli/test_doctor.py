"""`minivllm doctor`: each check on a good and a bad machine, and the exit status."""

import io
import platform
import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from support.patience import SOON

from minivllm.cli import main
from minivllm.cli.doctor import doctor, libraries, machine, models, sandbox, screen
from minivllm.cli.doctor.finding import advice, bad, ok
from minivllm.errors import ModelIntegrityError
from minivllm.lessons.checker.child import walls
from minivllm.lessons.checker.child.sandbox import Failure, Session


def run_with(findings: list, monkeypatch: pytest.MonkeyPatch) -> int:
    checks = [(finding.name, lambda finding=finding: finding) for finding in findings]
    monkeypatch.setattr(doctor, "CHECKS", tuple(checks))
    return main(["doctor"])


# ---- the command ----


def test_every_check_prints_one_line_and_this_machine_can_run_the_course(capsys):
    assert main(["doctor"]) == 0
    *lines, empty, conclusion = capsys.readouterr().out.splitlines()
    names = [name for name, _ in doctor.CHECKS]
    assert [re.match(r"(?:ok|note|bad) +(\w+( model)?)", line)[1] for line in lines] == names
    assert empty == "" and conclusion.startswith("The course can be done on this machine.")


def test_a_note_is_no_obstacle_and_a_bad_finding_is_status_1(monkeypatch, capsys):
    assert run_with([ok("a", "fine"), advice("b", "less")], monkeypatch) == 0
    assert run_with([ok("a", "fine"), bad("b", "broken: mend it")], monkeypatch) == 1
    said = capsys.readouterr().out
    assert "bad   b            broken: mend it\n" in said
    assert said.endswith("Mend 1 thing first (bad), then run minivllm doctor again.\n")


def test_a_check_that_fails_in_an_unknown_way_is_a_finding(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "CHECKS", (("x", lambda: 1 / 0), ("y", lambda: ok("y", "fine"))))
    assert main(["doctor"]) == 1
    assert "ZeroDivisionError" in (said := capsys.readouterr().out) and "ok    y" in said


def test_lines_are_coloured_only_on_a_terminal_that_wants_colours(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", Terminal())
    run_with([ok("a", "fine")], monkeypatch)
    assert sys.stdout.getvalue().startswith("\x1b[32mok ")
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    run_with([ok("a", "fine")], monkeypatch)
    assert "\x1b" not in sys.stdout.getvalue()


@pytest.mark.parametrize("missing", ["torch", "numpy", "tokenizers"])
def test_without_a_library_the_doctor_says_so_and_does_all_other_checks(missing):
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from minivllm.cli import main;"
        " from minivllm.cli.doctor import libraries; real = libraries.version;"
        " from importlib.metadata import PackageNotFoundError\n"
        f"def version(name):\n if name == {missing!r}: raise PackageNotFoundError(name)\n"
        " return real(name)\n"
        "libraries.version = version; sys.exit(main(['doctor']))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SOON)
    assert run.returncode == 1 and "Traceback" not in run.stderr, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) == len(doctor.CHECKS) + 2
    assert [line for line in lines if "the check failed" in line] == []
    assert any(line.startswith("bad") and missing in line and ": " in line for line in lines)


def test_loading_the_doctor_loads_no_torch():
    code = "import sys, minivllm.cli.doctor.doctor; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "False\n", run.stderr


# ---- libraries ----


@pytest.mark.parametrize(
    ("version", "state"), [((3, 10, 9), "bad"), ((3, 11, 0), "ok"), ((3, 14, 0), "bad")]
)
def test_python_must_be_3_11_to_3_13(version, state):
    finding = libraries.check_python(version)
    assert finding.state == state
    assert (state == "ok") is ("make PYTHON=" not in finding.text)


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(libraries, "_is_installed", lambda name: name not in ("rich", "gguf"))
    finding = libraries.check_packages()
    assert finding.state == "bad"
    assert finding.text.startswith("not installed: gguf, rich: pip install")
    monkeypatch.setattr(libraries, "_is_installed", lambda name: name != "uvicorn")
    assert libraries.check_extras() == advice(
        "extras", "the server will not run: pip install 'minivllm[serve]'"
    )


def test_a_damaged_torch_is_bad_and_a_missing_triton_is_a_note(monkeypatch):
    def broken(name: str) -> None:
        raise OSError(f"lib{name}.so: cannot open shared object file\nmore")

    monkeypatch.setattr(libraries, "import_module", broken)
    assert libraries.check_torch().state == "bad"
    assert "(libtorch.so: cannot open shared object file): " in libraries.check_torch().text
    assert libraries.check_triton().state == "note"
    monkeypatch.setattr(libraries, "find_spec", lambda name: None)
    finding = libraries.check_triton()
    assert finding.state == "note" and "lessons 17 and 18 show recordings" in finding.text


# ---- the machine ----


def test_a_failed_compiler_is_a_note_with_its_reason(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    finding = machine.check_compiler()
    assert finding.state == "note"
    assert finding.text.startswith("there is no C compiler")
    assert "install gcc" in finding.text


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs an x86-64 processor and gcc")
def test_a_processor_without_avx2_is_told_that_weights_are_unpacked(monkeypatch):
    monkeypatch.setenv("CC", "gcc -mno-avx512f -mno-avx2")
    finding = machine.check_compiler()
    assert finding.state == "ok"
    assert finding.text.endswith("no AVX2, so oneDNN multiplies, and weights become float32")


def memory_of(root: Path, kilobytes: int) -> Path:
    (root / "proc").mkdir(parents=True)
    (root / "proc" / "meminfo").write_text(f"MemAvailable: {kilobytes} kB\n")
    return root


@pytest.mark.parametrize(
    ("kilobytes", "state"), [(500_000, "bad"), (2_000_000, "note"), (8_000_000, "ok")]
)
def test_little_memory_is_a_note_and_too_little_is_bad(kilobytes, state, tmp_path):
    assert machine.check_memory(memory_of(tmp_path, kilobytes)).state == state


@pytest.mark.parametrize(
    ("free", "state"), [(10_000_000, "bad"), (500_000_000, "note"), (9_000_000_000, "ok")]
)
def test_a_full_disk_is_bad_and_a_small_one_a_note(free, state, tmp_path, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: usage(free))
    finding = machine.check_disk(tmp_path / "not" / "there" / "yet")
    assert finding.state == state
    assert (state == "ok") is ("MINIVLLM_CACHE" not in finding.text)
    monkeypatch.setattr(machine.os, "access", lambda path, mode: False)
    assert "is read-only" in machine.check_disk(tmp_path).text


# ---- the sandbox ----


def test_a_sandbox_that_cannot_run_is_bad(monkeypatch):
    monkeypatch.setattr(Session, "start", lambda self: Failure("died", "its process was ended"))
    assert sandbox.check_sandbox() == bad("sandbox", "exercises cannot run: its process was ended")


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (0, "time and memory (no Landlock"),
        (2, "their own folder (partly: before Linux 6.2"),
        (3, "Landlock lets them write only to their own folder"),
    ],
)
def test_the_sandbox_names_the_landlock_that_locks_a_child(version, words, monkeypatch):
    monkeypatch.setattr(Session, "start", lambda self: None)
    monkeypatch.setattr(walls, "program", lambda: None)
    monkeypatch.setattr(walls, "notice", lambda: None)
    monkeypatch.setattr(walls, "landlock", lambda: version)
    finding = sandbox.check_sandbox()
    assert finding.state == "ok" and words in finding.text
    assert finding.text.endswith((")", "folder"))


# ---- the terminal ----


@pytest.mark.parametrize(
    ("columns", "rows", "state"), [(120, 36, "ok"), (119, 36, "note"), (120, 35, "note")]
)
def test_a_small_terminal_is_a_note(columns, rows, state, monkeypatch):
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(rows))
    assert screen.check_terminal().state == state


@pytest.mark.parametrize(
    ("environment", "state", "text"),
    [
        ({"COLORTERM": "truecolor", "TERM": "xterm"}, "ok", "16 million"),
        ({"TERM": "xterm-256color"}, "ok", "256"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "note", "unset it"),
        ({"TERM": "dumb"}, "note", "TERM=xterm-256color"),
        ({}, "note", "not set"),
    ],
)
def test_colours_are_counted_from_the_environment(environment, state, text, monkeypatch):
    for name in ("TERM", "COLORTERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    finding = screen.check_colours()
    assert finding.state == state and text in finding.text


# ---- models ----


def test_a_damaged_house_model_is_bad_and_an_absent_chat_model_a_note(tmp_path, monkeypatch):
    def damaged() -> Path:
        raise ModelIntegrityError("The house model is damaged: install minivllm again.")

    monkeypatch.setattr("minivllm.runtime.store.house_model.house_checkpoint", damaged)
    damage = "The house model is damaged: install minivllm again"
    assert models.check_house_model() == bad("house model", damage)
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path))
    monkeypatch.setattr("minivllm.runtime.store.hub.Hub.cached", lambda self, repo_id: None)
    absent = "not downloaded: minivllm model fetch smollm2"
    assert models.check_chat_model() == advice("chat model", absent)
