"""`minivllm doctor`: each check on a good and a bad machine, and the exit status."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import SOON

from minivllm.cli import main
from minivllm.cli.doctor import doctor, machine, models, sandbox
from minivllm.cli.doctor.finding import advice, bad, ok
from minivllm.errors import ModelIntegrityError
from minivllm.lessons.checker.child.sandbox import Failure, Session


def test_every_check_prints_one_line_and_this_machine_can_run_the_course(capsys):
    assert main(["doctor"]) == 0
    *lines, empty, conclusion = capsys.readouterr().out.splitlines()
    names = [name for name, _ in doctor.CHECKS]
    assert [re.match(r"(?:ok|note|bad) +(\w+( model)?)", line)[1] for line in lines] == names
    assert empty == "" and conclusion.startswith("The course can be done on this machine.")


def test_a_note_is_no_obstacle_and_a_bad_finding_or_a_failed_check_is_status_1(monkeypatch, capsys):
    fine, less = ("a", lambda: ok("a", "fine")), ("b", lambda: advice("b", "less"))
    for checks, status in (
        ((fine, less), 0),
        ((fine, ("c", lambda: bad("c", "broken: mend it"))), 1),
        ((("x", lambda: 1 / 0), fine), 1),
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


def test_a_missing_compiler_is_a_note_with_its_reason(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    finding = machine.check_compiler()
    assert finding.state == "note" and finding.text.startswith("there is no C compiler")


def test_a_sandbox_that_cannot_run_is_bad(monkeypatch):
    monkeypatch.setattr(Session, "start", lambda self: Failure("died", "its process was ended"))
    assert sandbox.check_sandbox() == bad("sandbox", "exercises cannot run: its process was ended")


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
