"""`minivllm once` and `minivllm export`: a recording's facts for scripts."""

import json
from pathlib import Path

import msgspec
import pytest
from support.chrome_checker import CheckedTrace
from support.engine.engine_fakes import WatchedEngine

from minivllm.cli import main
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.recording import Recording
from minivllm.events.types import RequestPreempted

RECORDINGS = Path(__file__).parents[2] / "docs/assets/recordings"
LOG = RECORDINGS / "memory-pressure.jsonl"
LAST = Recording(LOG).last_step


@pytest.mark.parametrize("step", [0, 90, None])
def test_once_prints_the_folded_state_as_one_line_of_json(step, capsys):
    assert main(["once", str(LOG), "--json", *(() if step is None else ("--step", str(step)))]) == 0
    told = json.loads(capsys.readouterr().out)
    recording = Recording(LOG)
    fold = recording.view_at_step(recording.last_step if step is None else step)
    state = json.loads(msgspec.json.encode(fold.state))
    assert {name: told[name] for name in state} == state
    assert told["model"] == "house" and told["t"] == fold.t and told["lost_events"] == 0
    assert told["finished_requests"] == fold.counters.finished_requests
    assert sum(told["pool"].values()) == len(told["blocks"]) == 20


def when_two_were_preempted() -> int:
    """The step after the second preemption: two sequences run, and two wait."""
    recording = Recording(LOG)
    events = recording.events(0, len(recording))
    steps = [one.step for one in events if isinstance(one, RequestPreempted)]
    return steps[1] + 1


def test_once_prints_the_words_of_tokens_and_none_of_an_old_recording(tmp_path, capsys):
    path, watched = tmp_path / "run.jsonl", WatchedEngine()
    with LogWriter(path, watched.engine.log_header()) as log:
        watched.engine.subscribe(log.write)
        watched.add("a", [ord("t") - 32, ord("o") - 32, 0])
    assert main(["once", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["token_pieces"] == {"84": "t", "79": "o", "0": " "}
    old = path.read_bytes().replace(b'"tokens.named"', b'"kind.of.tomorrow"')
    path.write_bytes(old)
    assert main(["once", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["token_pieces"] == {} and told["requests"]["a"]["prompt_token_ids"] == [84, 79, 0]


def test_once_prints_running_and_waiting_requests_with_reasons(capsys):
    step = when_two_were_preempted()
    assert main(["once", str(LOG), "--step", str(step)]) == 0
    lines = capsys.readouterr().out.splitlines()
    fold = Recording(LOG).view_at_step(step)
    cleo, dan = (fold.sequences[one] for one in fold.waiting)
    free = len(fold.free_queue)
    assert lines[0].startswith("house (bf16 ") and f" after step {step}, " in lines[0]
    assert (
        lines[1] == f"blocks    20 of 16 tokens: {20 - free} used, {free} free but cached, 0 empty"
    )
    assert lines[3] == "running   2 in 4 slots" and lines[4].split()[:3] == ["ada", "slot", "0,"]
    need = -(-cleo.num_tokens // 16)
    assert lines[-2:] == [
        f"  cleo         {cleo.num_tokens} tokens, preempted 1x: needs {need} blocks, {free} free",
        f"  dan          {dan.num_tokens} tokens, preempted 1x: behind cleo",
    ]


def test_once_escapes_terminal_codes_from_the_recording(tmp_path, capsys):
    evil, data = tmp_path / "evil.jsonl", LOG.read_bytes()
    data = data.replace(b'"model":"house"', b'"model":"\\u001b[2Jhouse"', 1)
    evil.write_bytes(data.replace(b'"cleo.0"', b'"c\\u0007leo.0"'))
    assert main(["once", str(evil), "--step", str(when_two_were_preempted())]) == 0
    out = capsys.readouterr().out
    assert "cleo" in out and not any(ord(character) < 32 and character != "\n" for character in out)


def test_once_reports_lost_events(tmp_path, capsys):
    lines = LOG.read_bytes().splitlines(keepends=True)
    gapped = tmp_path / "gapped.jsonl"
    last_lost = json.loads(lines[100])
    gap = {"ev": "log.gap", **{name: last_lost[name] for name in ("seq", "step", "t")}, "lost": 51}
    gapped.write_bytes(b"".join([*lines[:50], json.dumps(gap).encode() + b"\n", *lines[101:]]))
    assert main(["once", str(gapped), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["lost_events"] == 51 and told["step"] <= gap["step"], "the state before the gap"
    assert main(["once", str(gapped)]) == 0
    assert capsys.readouterr().out.endswith(
        "51 events were lost: this is the state before the first of them.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["once", "no-such.jsonl"], "no-such.jsonl cannot be read: No such file or directory."),
        (["once", str(LOG), "--step", "9999"], f"ends with step {LAST}; it has no step 9999 yet."),
        (["export", __file__, "--perfetto", "x.json"], "is not a minivllm recording"),
        (["export", str(LOG), "--perfetto", "no/such/x.json"], "no/such/x.json: No such file"),
    ],
)
def test_a_failure_is_status_1_with_one_sentence(
    arguments, sentence, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and sentence in captured.err
    assert list(tmp_path.iterdir()) == []


def test_export_writes_a_trace_and_never_overwrites_the_recording(tmp_path, capsys):
    log, trace = tmp_path / "run.jsonl", tmp_path / "x.json"
    log.write_bytes(LOG.read_bytes())
    assert main(["export", str(log), "--perfetto", str(trace)]) == 0
    captured = capsys.readouterr()
    assert (
        captured.out == "" and f"{LAST} steps" in captured.err and "ui.perfetto.dev" in captured.err
    )
    assert CheckedTrace(trace.read_bytes()).about["steps"] == LAST
    link = tmp_path / "link.jsonl"
    link.symlink_to(log)
    assert main(["export", str(log), "--perfetto", str(link)]) == 2
    assert "is the recording itself" in capsys.readouterr().err
    assert log.read_bytes() == LOG.read_bytes()
