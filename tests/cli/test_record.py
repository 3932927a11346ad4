"""`--record` and other output files on a full disk: a failed write is always reported."""

import re
from itertools import takewhile
from pathlib import Path

import pytest
from support.full_disk import REASON, files_no_larger_than

from minivllm.cli import main
from minivllm.events.recording.recording import Recording
from minivllm.events.recording.whole_file import whole_file
from minivllm.events.types import Gap, StepEnd
from minivllm.tui.app import SCREENS

LOG = Path(__file__).parents[2] / "docs/assets/recordings/memory-pressure.jsonl"
ROOM = 64 << 10
"""Bytes, fewer than any of these recordings has."""
RECORDING_COMMANDS = {
    "demo": "demo --headless --model tiny-random --scenario burst --record FILE",
    "simulate": "simulate --requests 60 --random-output-len 16 --record FILE",
    "compare": "compare --model tiny-random --scenario burst --record FOLDER",
}


@pytest.mark.parametrize("name", RECORDING_COMMANDS)
def test_a_command_fails_when_the_disk_is_full_and_says_from_which_step_on(name, tmp_path, capsys):
    file = tmp_path / ("run.jsonl" if name != "compare" else "a.jsonl")
    places = {"FILE": str(file), "FOLDER": str(tmp_path)}
    with files_no_larger_than(ROOM):
        assert main([places.get(word, word) for word in RECORDING_COMMANDS[name].split()]) == 1
    said = capsys.readouterr()
    assert "Recorded up to" not in said.err + said.out and "minivllm replay" not in said.out
    lacks = rf"^minivllm: {file} lacks [\d,]+ events from step (\d+) on \({REASON}\)"
    found = re.search(lacks, said.err, re.MULTILINE)
    assert found is not None, said.err
    recording = Recording(file)
    whole = takewhile(lambda event: not isinstance(event, Gap), recording.events(0, len(recording)))
    assert max(event.step for event in whole if isinstance(event, StepEnd)) == int(found[1]) - 1
    if name != "compare":  # `compare` measures recordings and has no result without them
        assert said.out.count("\n") > 5, "what came of the run is printed all the same"


# ---- files that are written at once ----


@pytest.mark.parametrize(
    "command",
    [
        f"export {LOG} --perfetto",
        f"shot {LOG} -o",
        "lesson 2 --model tiny-random --transcript",
    ],
)
def test_a_file_that_does_not_fit_is_a_failure_and_the_old_file_stays(command, tmp_path, capsys):
    file = tmp_path / "written.svg"
    file.write_text("a good one")
    with files_no_larger_than(2000):
        assert main([*command.split(), str(file)]) == 1
    assert capsys.readouterr().err.endswith(f"minivllm: {file}: {REASON}.\n")
    assert file.read_text() == "a good one" and list(tmp_path.iterdir()) == [file]


def test_a_file_keeps_its_rights_and_a_link_stays_a_link(tmp_path):
    file, link = tmp_path / "real", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o600)
    link.symlink_to(file)
    with whole_file(link) as out:
        out.write(b"new")
    assert link.is_symlink() and file.read_text() == "new" and file.stat().st_mode & 0o777 == 0o600


def test_the_help_of_shot_names_every_screen(capsys) -> None:
    main(["shot", "--help"])
    words = capsys.readouterr().out.replace(",", " ").split()
    assert [name for name in SCREENS if name not in words] == []
