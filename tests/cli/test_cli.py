"""The `minivllm` command: exit status, one-line errors, and small commands."""

import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from support.patience import SOON

from minivllm import cli
from minivllm.cli import main


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", "  demo  "),
        ("demo --scenario nothing", "usage: minivllm demo"),
        ("demo --slow -1", "usage: minivllm demo"),
        ("generate x --block-size 0", "minivllm: block_size must be a whole number, at least 1"),
        ("generate x --min-tokens 9 --max-tokens 3", "minivllm: min_tokens is 9 but max_tokens"),
    ],
)
def test_wrong_usage_is_status_2_with_what_is_wrong_on_standard_error(command, words, capsys):
    assert main(command.split()) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("command", ["generate Hello --model", "demo --model", "model path"])
def test_an_unknown_model_is_status_1_with_one_sentence(command, capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main([*command.split(), "no-such-model.gguf"]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("minivllm: No model 'no-such-model.gguf'")
    assert captured.err.count("\n") == 1 and captured.out == ""


def test_ctrl_c_is_status_130_without_a_traceback(capsys, monkeypatch):
    def interrupted(model: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("minivllm.runtime.store.model_store.resolve_for_transformers", interrupted)
    assert main(["model", "path"]) == 130
    assert capsys.readouterr().err == ""


def test_a_bug_is_not_reported_as_a_user_error(monkeypatch):
    monkeypatch.setattr(
        "minivllm.runtime.store.model_store.resolve_for_transformers", lambda model: 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        main(["model", "path"])


def test_terminal_escapes_in_text_are_shown_and_not_executed():
    from minivllm.cli.terminal import show

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, pipe = Terminal(), io.StringIO()
    show("a\x1b[2Jb\rc\x9bd\te\n", terminal)
    show("a\x1b[2Jb", pipe)
    assert terminal.getvalue() == "a\ufffd[2Jb\ufffdc\ufffdd\te\n"
    assert pipe.getvalue() == "a\x1b[2Jb"


# ---- in a process of its own ----


def test_help_and_wrong_usage_load_neither_torch_nor_textual(tmp_path):
    code = (
        "import json, sys; from minivllm.cli import main; status = [main(a.split()) for a in"
        " ('--help', 'demo --help', 'compare --help', 'bench throughput --help', 'model --help',"
        " 'x')]; print(json.dumps([status, sorted({'torch', 'transformers', 'textual', 'numpy'} &"
        " set(sys.modules))]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=SOON, cwd=tmp_path
    )
    assert json.loads(result.stdout.splitlines()[-1]) == [[0, 0, 0, 0, 0, 2], []], result.stderr


def test_a_closed_pipe_ends_the_command_quietly(tmp_path):
    read_end, write_end = os.pipe()
    os.close(read_end)  # closed before the first word
    command = [sys.executable, "-m", "minivllm", "model", "list"]
    result = subprocess.run(
        command, stdout=write_end, stderr=subprocess.PIPE, cwd=tmp_path, timeout=SOON
    )
    os.close(write_end)
    assert (result.returncode, result.stderr) == (cli.BROKEN_PIPE, b"")


def test_a_ctrl_c_during_an_import_takes_effect_when_the_import_is_complete(monkeypatch):
    from minivllm.cli import loading
    from minivllm.config import EngineConfig
    from minivllm.engine.engine import LLMEngine

    done = []

    def slow_import(name: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)  # a signal handler runs between two bytecodes
        done.append(name)

    monkeypatch.setattr(loading, "import_module", slow_import)
    monkeypatch.setattr(LLMEngine, "from_config", lambda config: pytest.fail("it went on"))
    usual = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        loading.load_engine(EngineConfig(model="tiny-random"))
    assert done == ["minivllm.runtime.model_runner"]
    assert signal.getsignal(signal.SIGINT) is usual
