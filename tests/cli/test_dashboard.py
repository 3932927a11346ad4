"""`shot` draws screens; recordings that cannot be shown give one sentence."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len
from support.tui.svg_rows import rows_of

from minivllm.cli import main
from minivllm.events.recording.recording import Recording
from minivllm.events.types import RequestPreempted
from minivllm.tui.sources.http_source import HttpSource
from minivllm.tui.sources.tail import TailSource

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "docs/assets/recordings"
LOG = RECORDINGS / "memory-pressure.jsonl"
LAST = Recording(LOG).last_step
OTHER = RECORDINGS / "shared-prefix.jsonl"
SCREENS = {
    "scheduler": ("token budget", "Chosen step", "preempted for"),
    "compare": ("A: this recording", "B: the second one", "First different plan"),
}
"""Words on these screens after the first preemption; `tests/tui` checks every screen."""

Shoot = Callable[..., str]


@pytest.fixture
def shoot(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch) -> Shoot:
    """Run `minivllm shot LOG` with more arguments; return the drawing."""
    monkeypatch.delenv("NO_COLOR", raising=False)

    def run(*arguments: object, log: Path = LOG, warning: str = "") -> str:
        path = tmp_path / "x.svg"
        assert main(["shot", str(log), "-o", str(path), *map(str, arguments)]) == 0
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err == f"{warning}Wrote {path}.\n"
        return path.read_text("utf-8")

    return run


# ---- pictures ----


@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_is_drawn_as_it_is_in_a_terminal_of_this_size_at_this_step(screen, shoot):
    recording = Recording(LOG)
    events = recording.events(0, len(recording))
    step = next(one.step for one in events if isinstance(one, RequestPreempted))
    rows = rows_of(shoot("--screen", screen, "--step", step, "--size", "80x24", "--with", OTHER))
    assert len(rows) == 24 and max(map(cell_len, rows)) <= 80
    assert all(any(words in row for row in rows) for words in SCREENS[screen]), "\n".join(rows)
    assert "PAUSED" in rows[0] and "Play" in rows[-1]


def test_a_picture_loads_nothing_and_is_valid_xml_for_any_file_name(shoot, tmp_path):
    log = tmp_path / "a<b>&\x1b[31m'\".jsonl"
    log.write_bytes(LOG.read_bytes())
    svg = shoot(log=log)
    for words in ("@font-face", "url(http", "\x1b"):
        assert words not in svg
    assert "a<b>&" in "".join(ElementTree.fromstring(svg).itertext())
    assert f"step {LAST}" in rows_of(svg)[1], "without --step, the end of the recording"


def test_a_damaged_recording_is_drawn_as_far_as_it_goes(shoot, tmp_path):
    log = tmp_path / "damaged.jsonl"
    lines = LOG.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:200], b"?\n", *lines[200:]]))
    warning = (
        f"{log} is damaged at line 201: JSON is malformed: invalid character (byte 0). The picture"
        " shows the state before the damage.\n"
    )
    assert re.search(r"LOG DAMAGED .* step 1\d\b", rows_of(shoot(log=log, warning=warning))[1])


def test_shot_and_replay_do_not_import_torch():
    code = (
        "import sys; from minivllm.cli import main; main(['shot', sys.argv[1], '-o', sys.argv[2]]);"
        " main(['replay', sys.argv[1]]); print(sorted(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, LOG, "/dev/null"], capture_output=True, text=True, check=True
    )
    loaded = ran.stdout.splitlines()[-1]
    assert "'textual'" in loaded
    assert not any(
        f"'{name}'" in loaded
        for name in ("torch", "numpy", "transformers", "minivllm.engine.engine")
    )


# ---- what cannot be done ----


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            "--size 120",
            "--size must be columns and rows, at most 1000 each, as in 120x36; got '120'.",
        ),
        ("--screen home", "--screen must be one of overview, blocks, scheduler, requests, events,"),
        ("--choose nobody", "run.jsonl has no such request, block (b0 to b19) or event"),
        (f"--step {LAST + 1}", f"--step {LAST + 1}: run.jsonl has the steps 0 to {LAST}."),
        ("-o run.jsonl", "run.jsonl is the recording itself: name another file for the picture."),
        ("-o x.PDF", "x.svg"),
    ],
)
def test_wrong_usage_of_shot_is_one_sentence_and_status_2(
    arguments, sentence, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("run.jsonl").write_bytes(LOG.read_bytes())
    assert main(["shot", "run.jsonl", "-o", "x.svg", *arguments.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and sentence in captured.err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]
    assert Path("run.jsonl").read_bytes() == LOG.read_bytes()


UNREADABLE = [
    (command, log, sentence)
    for command in ("shot -o x.svg", "replay", "replay good.jsonl --with")
    for log, sentence in (
        ("no-such.jsonl", "cannot be read: No such file or directory."),
        ("foreign.jsonl", "is not a minivllm recording: its first line is not a header."),
        ("newer.jsonl", "has version 99 of the recording format"),
    )
] + [
    ("attach", "no-such.jsonl", "does not exist: check the path"),
    ("attach", "foreign.jsonl", "is not a minivllm recording: its first line is not a header."),
    ("attach", "http://127.0.0.1:9", ""),
]


@pytest.mark.parametrize(("command", "source", "sentence"), UNREADABLE)
def test_a_source_that_cannot_be_opened_gives_one_sentence_and_status_1(
    command, source, sentence, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("minivllm.cli.terminal.terminal_attached", lambda: True)
    monkeypatch.setattr("minivllm.tui.app.DashboardApp.run", lambda self: pytest.fail("it opened"))
    for patient in (TailSource, HttpSource):
        monkeypatch.setitem(patient.__init__.__kwdefaults__, "wait", 0.0)
    monkeypatch.chdir(tmp_path)
    good = LOG.read_bytes()
    Path("good.jsonl").write_bytes(good)
    Path("foreign.jsonl").write_bytes(b'{"level": "info", "message": "hello"}\n')
    Path("newer.jsonl").write_bytes(good.replace(b'"ev":"meta"', b'"ev":"meta","version":99', 1))
    assert main([*command.split(), source]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith(f"minivllm: {source} {sentence}".rstrip())
    assert not Path("x.svg").exists()


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        (["replay", str(LOG)], "shot LOG draws a picture of it"),
        (["attach", str(LOG)], "once SOURCE --json prints"),
        (["live", "--model", "tiny-random"], "demo --headless and generate run an engine without"),
    ],
)
def test_without_a_terminal_a_command_says_what_works_instead(
    command, instead, capsys, monkeypatch
):
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    assert main(command) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith("minivllm: The dashboard needs a terminal, and there is none")
    assert instead in captured.err


def test_replay_reports_a_missing_file_before_a_missing_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    missing = tmp_path / "missing.jsonl"
    assert main(["replay", str(missing)]) == 1
    captured = capsys.readouterr()
    assert str(missing) in captured.err and "terminal" not in captured.err
