"""Commands on a recording: `shot`, `once`, `export`, `replay --web`, and full disks."""

import base64
import gzip
import json
import re
from itertools import takewhile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.chrome_checker import CheckedTrace
from support.full_disk import REASON, files_no_larger_than
from support.tui.svg_rows import rows_of

from minivllm.cli import main
from minivllm.cli.recordings.web import write_page
from minivllm.events.recording.recording import Recording
from minivllm.events.types import Gap, RequestPreempted, StepEnd
from minivllm.tui.sources.http_source import HttpSource
from minivllm.tui.sources.tail import TailSource

RECORDINGS = Path(__file__).parents[3] / "docs/assets/recordings"
LOG = RECORDINGS / "memory-pressure.jsonl"
LAST = Recording(LOG).last_step
OTHER = RECORDINGS / "shared-prefix.jsonl"
BURST = RECORDINGS / "burst.jsonl"


# ---- pictures ----


def test_a_picture_loads_nothing_and_is_valid_xml_for_any_file_name(tmp_path):
    log = tmp_path / "a<b>&\x1b[31m'\".jsonl"
    log.write_bytes(LOG.read_bytes())
    assert main(["shot", str(log), "-o", str(tmp_path / "x.svg")]) == 0
    svg = (tmp_path / "x.svg").read_text("utf-8")
    assert not any(words in svg for words in ("@font-face", "url(http", "\x1b"))
    assert "a<b>&" in "".join(ElementTree.fromstring(svg).itertext())
    assert f"step {LAST}" in rows_of(svg)[1], "without --step, the end of the recording"


# ---- facts for scripts ----


def test_once_prints_all_requests_with_reasons_and_no_terminal_codes(capsys, tmp_path):
    log, recording = tmp_path / "run.jsonl", Recording(LOG)
    events = recording.events(0, len(recording))
    step = [event.step for event in events if isinstance(event, RequestPreempted)][1] + 1
    data = LOG.read_bytes().replace(b'"model":"house"', b'"model":"\\u001b[2Jhouse"', 1)
    log.write_bytes(data)
    assert main(["once", str(log), "--step", str(step)]) == 0
    said = capsys.readouterr().out
    assert not any(ord(character) < 32 and character != "\n" for character in said)
    lines, fold = said.splitlines(), recording.view_at_step(step)
    cleo, dan = (fold.sequences[seq_id] for seq_id in fold.waiting)
    free, need = len(fold.free_queue), -(-cleo.num_tokens // 16)
    assert f" after step {step}, " in lines[0] and lines[3] == "running   2 in 4 slots"
    assert lines[-2:] == [
        f"  cleo         {cleo.num_tokens} tokens, preempted 1x: needs {need} blocks, {free} free",
        f"  dan          {dan.num_tokens} tokens, preempted 1x: behind cleo",
    ]


def test_an_output_never_overwrites_the_recording(tmp_path, capsys):
    log, link = tmp_path / "run.jsonl", tmp_path / "link.jsonl"
    log.write_bytes(LOG.read_bytes())
    link.symlink_to(log)
    for command in ("export LOG --perfetto LINK", "shot LOG -o LINK", "replay LOG --web LINK"):
        words = command.replace("LOG", str(log)).replace("LINK", str(link)).split()
        assert main(words) == 2, command
        assert capsys.readouterr().err.count("\n") == 1
    assert log.read_bytes() == LOG.read_bytes()
    trace = tmp_path / "x.json"
    assert main(["export", str(log), "--perfetto", str(trace)]) == 0
    assert f"{LAST} steps" in capsys.readouterr().err
    assert CheckedTrace(trace.read_bytes()).about["steps"] == LAST


# ---- a page ----


def recordings_in(page: Path) -> dict[str, bytes]:
    found = re.findall(r"\?\?=\{\}\)\[(\".*?\")\]=\"(.*?)\";", page.read_text())
    return {json.loads(name): gzip.decompress(base64.b64decode(data)) for name, data in found}


def test_the_page_holds_the_recordings_and_needs_nothing_else(tmp_path):
    page = tmp_path / "out.html"
    web = ["--with", str(OTHER), "--web", str(page), "--step", "41"]
    assert main(["replay", str(BURST), *web]) == 0
    assert recordings_in(page) == {"burst": BURST.read_bytes(), "shared-prefix": OTHER.read_bytes()}
    text = page.read_text()
    assert 'data-step="41"' in text and not re.search(r"(src|href)=\"", text)
    cut = tmp_path / '<script>alert(1)<,"x.jsonl'
    cut.write_bytes(BURST.read_bytes()[:-30])
    write_page(page, [cut, cut])
    first, second = recordings_in(page).values()
    assert first == second == BURST.read_bytes()[: len(first)] and first.endswith(b"\n")
    assert "alert(1)" not in page.read_text(), "a file name cannot become HTML"


def test_a_recording_without_events_gets_one_sentence_and_no_page(tmp_path, capsys):
    log, page = tmp_path / "log.jsonl", tmp_path / "out.html"
    log.write_bytes(BURST.read_bytes().partition(b"\n")[0] + b"\n")
    assert main(["replay", str(log), "--web", str(page)]) != 0
    error = capsys.readouterr().err
    assert "no events" in error and error.count("\n") == 1 and not page.exists()


# ---- what cannot be done ----


@pytest.mark.parametrize(
    "command",
    ["shot -o x.svg", "replay", "replay good.jsonl --with", "replay --web x.svg", "attach"],
)
def test_a_source_that_cannot_be_opened_is_one_sentence(command, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("minivllm.cli.terminal.terminal_attached", lambda: True)
    monkeypatch.setattr("minivllm.tui.app.DashboardApp.run", lambda self: pytest.fail("it opened"))
    for patient in (TailSource, HttpSource):
        monkeypatch.setitem(patient.__init__.__kwdefaults__, "wait", 0.0)
    monkeypatch.chdir(tmp_path)
    Path("good.jsonl").write_bytes(LOG.read_bytes())
    Path("foreign.jsonl").write_bytes(b'{"level": "info", "message": "hello"}\n')
    newer = LOG.read_bytes().replace(b'"ev":"meta"', b'"ev":"meta","version":99', 1)
    Path("newer.jsonl").write_bytes(newer)
    Path("empty.jsonl").touch()
    Path("folder").mkdir()
    sources = ["no-such.jsonl", "foreign.jsonl", "empty.jsonl", "folder"]
    sources += ["http://127.0.0.1:9"] if command == "attach" else ["newer.jsonl"]
    for source in sources:
        assert main([*command.split(), source]) == 1
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.count("\n") == 1
        assert captured.err.startswith(f"minivllm: {source}")
    assert not Path("x.svg").exists()


# ---- a full disk ----


@pytest.mark.parametrize(
    "command",
    [
        "demo --headless --model tiny-random --scenario burst --record FILE",
        "simulate --requests 60 --random-output-len 16 --record FILE",
        "compare --model tiny-random --scenario burst --record FOLDER",
    ],
)
def test_a_command_fails_when_the_disk_is_full_and_says_from_which_step(command, tmp_path, capsys):
    file = tmp_path / "a.jsonl"
    command = command.replace("FILE", str(file)).replace("FOLDER", str(tmp_path))
    with files_no_larger_than(64 << 10):
        assert main(command.split()) == 1
    said = capsys.readouterr()
    assert "Recorded up to" not in said.err + said.out and "minivllm replay" not in said.out
    lacks = rf"^minivllm: {file} lacks [\d,]+ events from step (\d+) on \({REASON}\)"
    found = re.search(lacks, said.err, re.MULTILINE)
    assert found is not None, said.err
    recording = Recording(file)
    whole = takewhile(lambda event: not isinstance(event, Gap), recording.events(0, len(recording)))
    assert max(event.step for event in whole if isinstance(event, StepEnd)) == int(found[1]) - 1


@pytest.mark.parametrize("command", [f"export {LOG} --perfetto", f"shot {LOG} -o"])
def test_a_file_that_does_not_fit_is_a_failure_and_the_old_file_stays(command, tmp_path, capsys):
    file = tmp_path / "written.svg"
    file.write_text("a good one")
    with files_no_larger_than(2000):
        assert main([*command.split(), str(file)]) == 1
    assert capsys.readouterr().err.endswith(f"minivllm: {file}: {REASON}.\n")
    assert file.read_text() == "a good one" and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["run.jsonl", "http://localhost:8000"])
def test_vllm_events_needs_a_recording_that_is_there(name, capsys):
    assert main(["vllm-events", name, "--port", "0"]) == 1
    assert f"{name} cannot be read" in capsys.readouterr().err
