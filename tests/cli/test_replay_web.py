"""`minivllm replay --web`: one file that plays a recording, and one sentence for bad input."""

import base64
import gzip
import json
import re
from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.cli.recordings.web import write_page

RECORDINGS = Path(__file__).parents[2] / "docs/assets/recordings"
BURST = RECORDINGS / "burst.jsonl"
OTHER = RECORDINGS / "policies/static+contiguous.jsonl"


def recordings_in(page: Path) -> dict[str, bytes]:
    found = re.findall(r"\?\?=\{\}\)\[(\".*?\")\]=\"(.*?)\";", page.read_text())
    return {json.loads(name): gzip.decompress(base64.b64decode(data)) for name, data in found}


def test_the_page_holds_the_recording_and_needs_nothing_else(tmp_path, capsys):
    page = tmp_path / "out.html"
    assert main(["replay", str(BURST), "--web", str(page), "--step", "41"]) == 0
    assert recordings_in(page) == {"burst": BURST.read_bytes()}
    text = page.read_text()
    assert 'data-recording="burst" data-step="41"' in text
    assert not re.search(r"(src|href)=\"", text)
    assert page.as_uri() in capsys.readouterr().err
    assert page.stat().st_size < 200_000


def test_two_recordings_are_in_one_page_under_two_names(tmp_path):
    page = tmp_path / "out.html"
    assert main(["replay", str(BURST), "--with", str(OTHER), "--web", str(page)]) == 0
    assert list(recordings_in(page)) == ["burst", "static+contiguous"]
    write_page(page, [BURST, BURST])
    assert list(recordings_in(page)) == ["burst-A", "burst-B"]


def test_a_file_name_cannot_become_html(tmp_path):
    log = tmp_path / '<script>alert(1)<,"x.jsonl'
    log.write_bytes(BURST.read_bytes())
    write_page(tmp_path / "out.html", [log])
    assert "alert(1)" not in (tmp_path / "out.html").read_text()


def test_a_cut_recording_is_played_up_to_its_last_whole_event(tmp_path):
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(BURST.read_bytes()[:-30])
    write_page(tmp_path / "out.html", [cut])
    (inside,) = recordings_in(tmp_path / "out.html").values()
    assert inside == BURST.read_bytes()[: inside.__len__()] and inside.endswith(b"\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"Dear diary,\n", "not a minivllm recording"),
        (BURST.read_bytes().partition(b"\n")[0] + b"\n", "no events"),
        (b"", "empty or incomplete"),
        (BURST.read_bytes().replace(b'"num_blocks":64', b'"num_blocks":99999', 1), "65,536"),
    ],
)
def test_bad_input_gets_one_sentence_and_writes_nothing(tmp_path, capsys, content, said):
    log, page = tmp_path / "log.jsonl", tmp_path / "out.html"
    log.write_bytes(content)
    assert main(["replay", str(log), "--web", str(page)]) != 0
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error and error.count("\n") == 1
    assert not page.exists()


def test_the_page_never_replaces_the_recording_and_takes_one_or_two(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    log.write_bytes(BURST.read_bytes())
    assert main(["replay", str(log), "--web", str(log)]) != 0
    assert "another name" in capsys.readouterr().err and log.read_bytes() == BURST.read_bytes()
    assert main(["replay", str(log), str(log), "--web", str(tmp_path / "out.html")]) != 0
    assert "--with" in capsys.readouterr().err
    assert main(["replay", str(log), "--web", str(tmp_path / "no/out.html")]) != 0
    assert "Traceback" not in capsys.readouterr().err
