"""The `minivllm` command: exit status, one-line errors, and the commands that everybody runs."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.patience import SOON

from minivllm.cli import loading, main
from minivllm.cli.terminal import show
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events.recording.recording import Recording

LOG = Path(__file__).parents[2] / "docs/assets/recordings/memory-pressure.jsonl"
LAST = Recording(LOG).last_step


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        ("demo --scenario nothing", 2, "usage: minivllm demo"),
        ("demo --slow -1", 2, "usage: minivllm demo"),
        ("generate x --block-size 0", 2, "--block-size must be a whole number, at least 1"),
        ("generate x --min-tokens 9 --max-tokens 3", 2, "--min-tokens is 9 but --max-tokens"),
        ("to-vllm house --max-num-seqs 0", 2, "--max-num-seqs must be a whole number"),
        ("simulate --block-size 0", 2, "--block-size must be a whole number"),
        ("demo --speculative-config {}", 2, "--speculative-config"),
        ("generate Hello --model no-such.gguf", 1, "No model 'no-such.gguf'"),
        ("model path no-such.gguf", 1, "No model 'no-such.gguf'"),
        ("once no-such.jsonl", 1, "cannot be read: No such file or directory."),
        (f"once {LOG} --step 9999", 1, f"ends with step {LAST}; it has no step 9999 yet."),
        ("attach --vllm localhost:8000", 2, "--scheduler-cls minivllm.vllm.RecordingScheduler"),
        (f"replay {LOG}", 1, "shot LOG draws a picture of it"),
        (f"shot {LOG} -o x.svg --size 120", 2, "columns and rows, at most 999 each"),
        ("compare --a buddy --model tiny-random", 2, "the unknown part 'buddy'"),
        ("simulate --rate 0", 2, "must be more than 0 requests per second"),
        ("serve --port 0 --host 0.0.0.0", 2, "--api-key"),
        ("", 2, "  Watch              demo, tour, live, replay, attach\n  Learn  "),
        ("lesson 99", 1, "There is no lesson '99'"),
    ],
)
def test_an_error_is_a_sentence_and_a_status(command, status, words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    assert main(command.split()) == status
    said = capsys.readouterr()
    assert words in said.err and said.out == "" and "Traceback" not in said.err
    if not command:
        assert len(said.err.splitlines()) < 24
    elif "usage" not in said.err:
        assert said.err.startswith("minivllm: ") and said.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_is_status_130_and_a_bug_is_not_reported_as_a_user_error(capsys, monkeypatch):
    def interrupted(model: str) -> None:
        raise KeyboardInterrupt

    place = "minivllm.cli.serving.model.resolve_for_transformers"
    monkeypatch.setattr(place, interrupted)
    assert main(["model", "path"]) == 130
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(place, lambda model: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["model", "path"])


def test_terminal_escapes_in_text_are_shown_and_not_executed():
    terminal, pipe = io.StringIO(), io.StringIO()
    terminal.isatty = lambda: True
    show("a\x1b[2Jb\rc\x9bd\te\n", terminal)
    show("a\x1b[2Jb", pipe)
    assert terminal.getvalue() == "a\ufffd[2Jb\ufffdc\ufffdd\te\n"
    assert pipe.getvalue() == "a\x1b[2Jb"


def test_a_ctrl_c_during_an_import_takes_effect_when_the_import_is_complete(monkeypatch):
    done = []

    def import_with_ctrl_c(name: str) -> None:
        signal.raise_signal(signal.SIGINT)
        done.append(name)

    monkeypatch.setattr(loading, "import_module", import_with_ctrl_c)
    monkeypatch.setattr(LLMEngine, "from_config", lambda config: pytest.fail("it went on"))
    usual = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        loading.load_engine(EngineConfig(model="tiny-random"))
    assert done == ["minivllm.runtime.model_runner"]
    assert signal.getsignal(signal.SIGINT) is usual


@pytest.mark.parametrize("step", [0, 90, None])
def test_once_prints_the_folded_state_as_one_line_of_json(step, capsys):
    assert main(["once", str(LOG), "--json", *(() if step is None else ("--step", str(step)))]) == 0
    told = json.loads(capsys.readouterr().out)
    fold = Recording(LOG).view_at_step(LAST if step is None else step)
    state = json.loads(msgspec.json.encode(fold.state))
    assert {name: told[name] for name in state} == state
    assert told["model"] == "house" and told["t"] == fold.t and told["lost_events"] == 0
    assert told["finished_requests"] == fold.counters.finished_requests
    assert sum(told["pool"].values()) == len(told["blocks"]) == 20


# ---- in a process of its own: the two that `make test` starts ----


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=SOON, cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_help_names_every_command_and_is_status_0(tmp_path):
    helped = run(tmp_path, "-m", "minivllm", "--help")
    assert helped.returncode == 0 and helped.stderr == ""
    commands = ("generate", "chat", "serve", "demo", "lesson", "exercise", "compare", "bench")
    assert all(f"  {command} " in helped.stdout for command in commands)
    assert len(helped.stdout.splitlines()) < 36


def test_the_help_of_a_command_has_the_usual_options_and_all_of_them_on_request(capsys):
    said = {}
    for how in ("--help", "--help=all"):
        assert main(["demo", how]) == 0
        said[how] = capsys.readouterr().out
    brief, whole = said.values()
    assert "--max-num-seqs" in brief and "--batch-delay" not in brief and "--batch-delay" in whole
    assert len(brief.splitlines()) < 80 < len(whole.splitlines())


def test_the_house_model_writes_the_same_story_in_a_process_as_in_this_one(tmp_path, capsys):
    command = ["generate", "Once upon a time", "--model", "house", "--max-tokens", "12"]
    command += ["--num-gpu-blocks-override", "64", "--json"]
    there = run(tmp_path, "-m", "minivllm", *command)
    assert (there.returncode, "Traceback" in there.stderr) == (0, False), there.stderr
    assert main(command) == 0
    (mine,), (theirs,) = (
        json.loads(text)["outputs"] for text in (capsys.readouterr().out, there.stdout)
    )
    assert theirs["token_ids"] == mine["token_ids"] and len(mine["token_ids"]) == 12
    assert theirs["text"] == mine["text"] and theirs["finish_reason"] == "length"
