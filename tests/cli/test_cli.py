"""The `minivllm` command: exit status, errors in one line, and the small commands."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.patience import SOON

from minivllm import cli
from minivllm.cli import main

TINY = ["--model", "tiny-random"]


def run_python(*arguments: str, **options: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=SOON, **options
    )


def the_only_line(text: str) -> str:
    assert text.count("\n") == 1 and text.endswith("\n"), text
    return text[:-1]


def test_without_a_command_all_commands_are_shown_as_wrong_usage(capsys: pytest.CaptureFixture):
    assert main([]) == 2
    said = capsys.readouterr()
    assert said.out == "" and all(f"    {name} " in said.err for name in cli.COMMANDS)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["demo", "--help"], ["generate", "--help"], ["--version"]]
)
def test_asking_for_help_succeeds(arguments: list[str], capsys: pytest.CaptureFixture):
    assert main(arguments) == 0
    assert "minivllm" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["demo", "--scenario", "nothing"],
        ["demo", "--slow", "-1"],
        ["generate", "x", "--max-tokens", "many"],
        ["model", "forget"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_status_2_with_the_usage_on_standard_error(
    arguments: list[str], capsys: pytest.CaptureFixture
):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("usage: minivllm")
    assert captured.out == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--block-size", "0"], "block_size must be a whole number, at least 1; got 0."),
        (["--temperature", "-1"], "temperature must be a finite number, from 0 to 100; got -1.0."),
        (["--min-tokens", "9", "--max-tokens", "3"], "min_tokens is 9 but max_tokens is 3"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_option_out_of_range_is_status_2_with_one_sentence(
    arguments, sentence, capsys: pytest.CaptureFixture
):
    assert main(["generate", "Hello", *TINY, *arguments]) == 2
    captured = capsys.readouterr()
    assert the_only_line(captured.err).startswith(f"minivllm: {sentence}")
    assert captured.out == ""


@pytest.mark.parametrize(
    "command", [["generate", "Hello"], ["demo", "--headless"], ["model", "path"]], ids=str
)
def test_an_unknown_model_is_status_1_with_one_sentence(
    command: list[str], capsys: pytest.CaptureFixture, monkeypatch
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = (
        ["no-such-model.gguf"]
        if command == ["model", "path"]
        else ["--model", "no-such-model.gguf"]
    )
    assert main([*command, *model]) == 1
    captured = capsys.readouterr()
    assert the_only_line(captured.err).startswith("minivllm: No model 'no-such-model.gguf'")
    assert captured.out == ""


def test_ctrl_c_is_status_130_without_a_traceback(capsys: pytest.CaptureFixture, monkeypatch):
    def interrupted(model: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("minivllm.runtime.store.model_store.resolve_model", interrupted)
    assert main(["model", "path"]) == 130
    assert capsys.readouterr().err == ""


def test_a_bug_is_not_dressed_up_as_an_error_of_the_user(monkeypatch):
    monkeypatch.setattr("minivllm.runtime.store.model_store.resolve_model", lambda model: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["model", "path"])


def test_model_path_ends_with_the_directory_of_a_checkpoint(
    capsys: pytest.CaptureFixture, tiny_random_path: Path
):
    assert main(["model", "path", "tiny-random"]) == 0
    last = Path(capsys.readouterr().out.splitlines()[-1])
    assert last == tiny_random_path.resolve()
    assert (last / "config.json").is_file()


def test_model_list_names_the_aliases_and_what_is_here(
    capsys: pytest.CaptureFixture, tiny_random_path: Path
):
    assert main(["model", "list"]) == 0
    out = capsys.readouterr().out
    assert "smollm2" in out and "tiny-random" in out and str(tiny_random_path) in out


def test_bench_hands_its_options_to_the_bench_that_was_named(monkeypatch):
    seen = []
    monkeypatch.setattr("minivllm.lab.bench.core.run", lambda args: seen.append(args) or 5)
    assert main(["bench", "core", "--json"]) == 5
    assert seen[0].json is True


def test_text_that_would_command_the_terminal_is_shown_and_not_obeyed():
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


def test_help_and_wrong_usage_load_neither_torch_nor_textual(tmp_path: Path):
    code = (
        "import json, sys; from minivllm.cli import main; status = [main(a.split()) for a in"
        " ('--help', 'demo --help', 'compare --help', 'bench throughput --help', 'model --help',"
        " 'x')]; print(json.dumps([status, sorted({'torch', 'transformers', 'textual', 'numpy'} &"
        " set(sys.modules))]))"
    )
    result = run_python("-c", code, cwd=tmp_path)
    assert json.loads(result.stdout.splitlines()[-1]) == [[0, 0, 0, 0, 0, 2], []], result.stderr


def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path: Path):
    read_end, write_end = os.pipe()
    os.close(read_end)  # it is gone before the first word
    result = subprocess.run(
        [sys.executable, "-m", "minivllm", "model", "list"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        timeout=SOON,
    )
    os.close(write_end)
    assert (result.returncode, result.stderr) == (cli.BROKEN_PIPE, "")


def test_a_ctrl_c_during_an_import_is_obeyed_when_the_import_is_whole(monkeypatch):
    from minivllm.cli import loading
    from minivllm.config import EngineConfig

    done = []

    def slow_import(name: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)  # a handler runs between two steps of the interpreter
        done.append(name)

    monkeypatch.setattr(loading, "import_module", slow_import)
    monkeypatch.setattr(loading.LLMEngine, "from_config", lambda config: pytest.fail("it went on"))
    usual = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        loading.load_engine(EngineConfig(model="tiny-random"))
    assert done == ["minivllm.runtime.model_runner"]
    assert signal.getsignal(signal.SIGINT) is usual
