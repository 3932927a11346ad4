"""`minivllm doctor`: a line for each check, without a library too, and the exit status."""

import re
import subprocess
import sys

import pytest
from support.patience import SOON

from minivllm.cli import main
from minivllm.cli.course import doctor
from minivllm.cli.course.doctor import Finding


def test_every_check_prints_one_line_and_this_machine_can_run_the_course(capsys):
    assert main(["doctor"]) == 0
    *lines, empty, conclusion = capsys.readouterr().out.splitlines()
    names = [*doctor.CHECKS]
    assert [re.match(r"(?:ok|note|bad) +(\w+( model)?)", line)[1] for line in lines] == names
    assert empty == "" and conclusion.startswith("The course can be done on this machine.")


def test_a_note_is_no_obstacle_and_a_bad_finding_or_a_failed_check_is_status_1(monkeypatch, capsys):
    fine, less = lambda: Finding("ok", "fine"), lambda: Finding("note", "less")
    for checks, status in (
        ({"a": fine, "b": less}, 0),
        ({"a": fine, "c": lambda: Finding("bad", "broken: mend it")}, 1),
        ({"x": lambda: 1 / 0, "a": fine}, 1),
    ):
        monkeypatch.setattr(doctor, "CHECKS", checks)
        assert main(["doctor"]) == status
        said = capsys.readouterr().out
        assert "ok    a" in said
    assert "ZeroDivisionError" in said
    assert said.endswith("Mend 1 thing first (bad), then run minivllm doctor again.\n")


@pytest.mark.parametrize("missing", ["torch", "tokenizers"])
def test_without_a_library_the_doctor_says_so_and_does_all_other_checks(missing):
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from minivllm.cli import main;"
        " from minivllm.cli.course import doctor; real = doctor.version;"
        " from importlib.metadata import PackageNotFoundError\n"
        f"def version(name):\n if name == {missing!r}: raise PackageNotFoundError(name)\n"
        " return real(name)\n"
        "doctor.version = version; sys.exit(main(['doctor']))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SOON)
    assert run.returncode == 1 and "Traceback" not in run.stderr, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) == len(doctor.CHECKS) + 2
    assert [line for line in lines if "the check failed" in line] == []
    assert any(line.startswith("bad") and missing in line and ": " in line for line in lines)
