"""Whatever file a reader drops, the player answers with one sentence or plays what is whole."""

import gzip
import json
import re
from pathlib import Path

import pytest
from support.node import find_node, player_modules, run_node

pytestmark = pytest.mark.skipif(find_node() is None, reason="no node, neither as a wheel nor here")

BURST = Path(__file__).parents[3] / "docs/assets/recordings/burst.jsonl"
READ = Path(__file__).with_name("bad_input.mjs")


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, dict]:
    folder = tmp_path_factory.mktemp("dropped")
    lines = BURST.read_bytes().splitlines(keepends=True)
    header, unknown = json.loads(lines[0]), json.loads(lines[50])
    files = {
        "cut.jsonl": b"".join(lines[:100]) + lines[100][:20],
        "packed.jsonl.gz": gzip.compress(BURST.read_bytes()),
        "cut.jsonl.gz": gzip.compress(BURST.read_bytes())[:-2000],
        "notes.txt": b"Dear diary,\n",
        "newer.jsonl": _with(header, version=3) + b"".join(lines[1:]),
        "no-blocks.jsonl": _with(header, num_blocks=0) + b"".join(lines[1:]),
        "missing-line.jsonl": b"".join(lines[:50] + lines[51:]),
        "impossible.jsonl": lines[0] + _finish_of_nobody(),
        "impossible-later.jsonl": b"".join(lines[:50]) + _finish_of_nobody(seq=49),
        "unknown-kind.jsonl": b"".join(lines[:50]) + _with(unknown, ev="block.teleported"),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return json.loads(run_node(READ, player_modules(folder), *(folder / name for name in files)))


def _with(header: dict, **fields: object) -> bytes:
    return json.dumps(header | fields).encode() + b"\n"


def _finish_of_nobody(seq: int = 0) -> bytes:
    event = {"ev": "request.finished", "step": 1, "t": 0.0, "seq_id": "nobody.0", "reason": "stop"}
    return _with(event, seq=seq)


REFUSED = {
    "notes.txt": "not a minivllm recording", "nothing": "not a minivllm recording",
    "newer.jsonl": "version 3", "no-blocks.jsonl": "num_blocks", "missing-line.jsonl": "line 51",
    "impossible.jsonl": "cannot be played", "cut.jsonl.gz": "gzip", "huge.jsonl": "larger",
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_played_gets_one_sentence(name, results):
    said = results[name]["refused"]
    assert REFUSED[name] in said and name in said
    assert said.endswith(".") and not re.search(r"[.!?] [A-Z]|\n", said), "one sentence"


def test_a_recording_plays_up_to_a_cut_or_an_impossible_event_and_says_so(results):
    assert results["cut.jsonl"]["events"] == 99 and "cut off" in results["cut.jsonl"]["note"]
    found = results["impossible-later.jsonl"]
    assert found["events"] == 49 and "event 49, request.finished, is impossible" in found["note"]


def test_a_packed_recording_and_one_of_a_newer_engine_are_played(results):
    assert results["packed.jsonl.gz"]["events"] == len(BURST.read_text().splitlines()) - 1
    assert results["unknown-kind.jsonl"] == {"events": 49, "note": ""}, "without the unknown event"
