"""`minivllm demo`: headless with its recording and report, and the dashboard in a terminal."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from typing import ClassVar

import pytest
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.patience import SOON

from minivllm.cli import main
from minivllm.core.invariants import Violation
from minivllm.events.recording.recording import Recording
from minivllm.events.types import BeamPruned, BeamsFound, RequestFinished
from minivllm.lessons.scenarios.house import STORIES, for_the_house_model
from minivllm.lessons.scenarios.scenarios import SCENARIOS
from minivllm.tui.context import Figure
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.start import Start

DEMO = ["demo", "--model", "house", "--headless"]


ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


COUNTERS = {
    "preemptions": "num_preemptions",
    "prefix_hit_tokens": "prefix_cache_hits",
    "evicted_blocks": "evicted_blocks",
    "forked_sequences": "forked_sequences",
    "copied_blocks": "copied_blocks",
    "generated_tokens": "generation_tokens",
}
"""Number of the report -> its counter in the recording."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_demo_ends_with_its_counts_in_one_line_of_json(name, capsys, tmp_path):
    log = tmp_path / "run.jsonl"
    assert main([*DEMO, "--scenario", name, "--json", "--record", str(log)]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert (result["scenario"], result["model"]) == (name, "house")
    assert result["finished_requests"] == len(SCENARIOS[name].arrivals)
    assert result["invariant_violations"] == 0
    assert len(result["what_happened"]) == 3
    assert result["tokens_per_s"] == pytest.approx(result["generated_tokens"] / result["seconds"])
    # The recording agrees with the report.
    recording = Recording(log)
    counters = recording.view_at_step(recording.last_step).counters
    assert result["steps"] == recording.last_step
    for key, counter in COUNTERS.items():
        assert result[key] == getattr(counters, counter), key
    events = list(recording.events(0, len(recording)))
    over = {(e.seq_id.rpartition(".")[0], e.step) for e in events if isinstance(e, BeamsFound)}
    pruned = [(e.seq_id.rpartition(".")[0], e.step) for e in events if isinstance(e, BeamPruned)]
    assert result["pruned_beams"] == sum(one not in over for one in pruned), (
        "those left over at the end were not pruned"
    )
    # The text report agrees too.
    assert all(sentence in captured.err for sentence in result["what_happened"])
    assert all(f"  {arrival.request_id}" in captured.err for arrival in SCENARIOS[name].arrivals)
    ended = [event for event in events if isinstance(event, RequestFinished)]
    assert captured.err.count("finishes") == len(ended) >= result["finished_requests"]
    assert captured.err.count("is preempted") == result["preemptions"]


# ---- without a chat model ----


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No model in any cache, and no network."""
    for name in ("MINIVLLM_CACHE", "HF_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "HF_HOME"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


def test_without_a_chat_model_the_house_model_tells_eight_stories(empty_home, capsys):
    assert main(["demo", "--headless"]) == 0
    captured = capsys.readouterr()
    advice = [line for line in captured.err.splitlines() if "minivllm model fetch smollm2" in line]
    assert len(advice) == 1 and captured.err.startswith(advice[0])
    assert "on house (bf16 from the package minivllm)" in captured.out
    stories = STORIES["shared-prefix"]
    for user, story in stories.items():
        assert re.search(rf"^  {user} +{re.escape(story.prompt)}$", captured.out, re.MULTILINE)
    assert captured.out.count(" > ") == len(stories) == 8
    assert "8 of 8 requests finished" in captured.out
    assert "\ufffd" not in captured.out
    # No compiler ran, and nothing was downloaded.
    assert sorted(path.name for path in empty_home.iterdir()) == []


def test_the_chat_model_answers_if_it_is_here(empty_home, tiny_random_path, capsys):
    shutil.copytree(tiny_random_path, empty_home / "MINIVLLM_CACHE" / "models" / "smollm2-v2")
    assert main(["demo", "--headless", "--json", "--scenario", "burst"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["model"] == "smollm2"
    assert "house model" not in captured.err


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_the_first_story_begins_within_three_seconds_of_processor_time(empty_home):
    process = subprocess.Popen(
        [sys.executable, "-m", "minivllm", "demo", "--headless", "--model", "house"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT | {"MINIVLLM_CACHE": str(empty_home / "none")},
    )
    try:
        assert any("enters slot" in line for line in process.stderr)
        stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    finally:
        process.kill()
        process.communicate()
    ticks = int(stat[11]) + int(stat[12])  # utime, stime
    assert ticks / os.sysconf("SC_CLK_TCK") < 3.0


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_house_model_gets_each_scenario_without_a_penalty(name):
    adapted = for_the_house_model(SCENARIOS[name])
    assert [one.request_id for one in adapted.arrivals] == [
        one.request_id for one in SCENARIOS[name].arrivals
    ]
    assert {one.params.frequency_penalty for one in adapted.arrivals} == {0.0}
    stories = STORIES.get(name, {})
    for ours, one in zip(adapted.arrivals, SCENARIOS[name].arrivals, strict=True):
        story = stories.get(one.request_id)
        if story is None:
            assert ours.messages == one.messages
        elif story.system is None:
            assert ours.messages[:-1] == one.messages[:-1]


def test_a_violated_invariant_is_counted_reported_and_a_failure(capsys, monkeypatch):
    calls = []

    def violated_once(scheduler, plan):
        calls.append(plan)
        return [Violation("free queue", "made up for this test")] if len(calls) == 20 else []

    monkeypatch.setattr("minivllm.engine.stepper.check_invariants", violated_once)
    assert main([*DEMO, "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["invariant_violations"] == 1
    assert captured.err.endswith("minivllm: free queue: made up for this test\n")


class PretendedDashboard:
    """Replaces the dashboard: starts the engine, and exits when it gets the run's summary."""

    shown: ClassVar[list["PretendedDashboard"]] = []

    def __init__(
        self, source: InProcessSource, *, watch: str, start: Start, **options: object
    ) -> None:
        self.source, self.watch, self.start = source, watch, start
        self.summary: list[str] = []
        self.return_code = 0
        self._told = threading.Event()
        self.shown.append(self)

    def show_summary(
        self, lines: list[str], step: int | None = None, figures: tuple[Figure, ...] = ()
    ) -> None:
        self.summary, self.figures = lines, figures
        self._told.set()

    def run(self) -> None:
        self.start.begin()
        self.source = self.start.started.result(SOON).source
        assert self._told.wait(SOON)


@pytest.fixture
def dashboards(monkeypatch) -> list[PretendedDashboard]:
    """Pretend that a terminal is attached; return the dashboards that were opened."""
    monkeypatch.setattr("minivllm.tui.app.DashboardApp", PretendedDashboard)
    monkeypatch.setattr(PretendedDashboard, "shown", [])
    monkeypatch.setattr("minivllm.cli.serving.demo.terminal_attached", lambda: True)
    return PretendedDashboard.shown


def test_headless_opens_no_dashboard_and_options_override_the_scenario(dashboards, capsys):
    options = ["--num-gpu-blocks-override", "200", "--no-enable-prefix-caching"]
    assert main([*DEMO, "--scenario", "memory-pressure", "--json", *options]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["preemptions"], result["prefix_hit_tokens"]) == (0, 0)
    assert "200 blocks were enough" in result["what_happened"][0]
    assert dashboards == []


def test_the_dashboard_gets_every_event_and_the_summary_at_the_end(dashboards, capsys, tmp_path):
    log = tmp_path / "run.jsonl"
    options = ["--slow", "0", "--json", "--record", str(log)]
    assert main(["demo", "--model", "tiny-random", *options]) == 0
    (dashboard,) = dashboards
    recording = Recording(log)
    assert dashboard.watch == SCENARIOS["shared-prefix"].watch
    shown = dashboard.source.recording
    assert shown.header == recording.header
    assert dashboard.source.poll(SOON) == len(shown) == len(recording)
    assert list(shown.events(0, len(shown))) == list(recording.events(0, len(recording)))
    assert dashboard.summary == json.loads(capsys.readouterr().out)["what_happened"]


def test_ctrl_c_ends_the_run_and_leaves_a_readable_recording(tmp_path):
    log = tmp_path / "run.jsonl"
    options = ["--slow", "0.05", "--json", "--record", str(log)]
    process = subprocess.Popen(
        [sys.executable, "-m", "minivllm", *DEMO, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    said = []
    for line in process.stderr:
        said.append(line)
        if "enters slot" in line:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SOON)
    err = "".join(said) + err
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert re.search(r"Recorded up to step \d+ in ", err)
    assert json.loads(out)["invariant_violations"] == 0, "the report comes after Ctrl-C, too"
    recording = Recording(log)
    assert 1 <= recording.last_step < 150
    end = recording.view_at_event(len(recording))
    assert end.counters.aborted_requests >= 1
    assert end.requests == {}
    assert all(block.ref_cnt == 0 for block in end.blocks)
    # Complete to its last byte: the writer was closed, not killed.
    lines = log.read_bytes().split(b"\n")
    assert lines[-1] == b"" and len(lines) == len(recording) + 2


def read_terminal(terminal: int, until: bytes | None) -> bytes:
    """Read the program's output, up to `until` or to its end."""
    seen, deadline = b"", time.monotonic() + SOON
    while until is None or until not in seen:
        assert time.monotonic() < deadline, f"{until} did not come: {seen[-2000:]!r}"
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError:  # the program has ended
                return seen
    return seen


def test_in_a_terminal_the_dashboard_opens_and_a_key_leaves_it_with_a_report(tmp_path):
    log = tmp_path / "run.jsonl"
    command = f"minivllm demo --model tiny-random --scenario burst --json --record {log}"
    pid, terminal = pty.fork()
    if pid == 0:
        terminal_of_its_own = ENVIRONMENT | {"TERM": "xterm-256color", "COLUMNS": "", "LINES": ""}
        os.execve(sys.executable, [sys.executable, "-m", *command.split()], terminal_of_its_own)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
    try:
        seen = read_terminal(terminal, b"DECODE")
        assert b"\x1b[?1049h" in seen  # the alternate screen
        os.write(terminal, b"q")
        after = read_terminal(terminal, None)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0, after
    assert b"\x1b[?1049l" in after, "the terminal was not restored"
    report = after.rpartition(b"\x1b[?1049l")[2].decode()
    assert "The run was stopped early." in report
    *_, result, recorded = report.strip().splitlines()
    assert "Recorded up to step" in recorded
    result = json.loads(result)
    assert result["finished_requests"] < result["requests"] == 12
    assert Recording(log).last_step == result["steps"]
