"""The dashboard opens before the model is loaded, and every end of the start is clean."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.tui.terminals import Program

COMMANDS = [["demo"], ["live"], ["lesson", "4"]]


@pytest.fixture
def endless(tiny_random_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint whose weights never come: the start waits for them forever."""
    monkeypatch.setenv("MINIVLLM_PROGRESS", str(tmp_path / "progress.json"))
    checkpoint = tmp_path / "endless"
    shutil.copytree(tiny_random_path, checkpoint)
    (checkpoint / "model.safetensors").unlink()
    os.mkfifo(checkpoint / "model.safetensors")
    return checkpoint


def test_the_first_frame_is_drawn_without_torch_and_without_the_engine() -> None:
    code = (
        "import sys, minivllm.cli.serving.{0}, minivllm.tui.app, minivllm.tui.screens.start;"
        " print(sorted(sys.modules))"
    )
    for command in ("demo", "live"):
        ran = subprocess.run(
            [sys.executable, "-c", code.format(command)], capture_output=True, text=True, check=True
        )
        assert "'minivllm.tui.app'" in ran.stdout
        for name in ("torch", "numpy", "transformers", "minivllm.engine.engine"):
            assert f"'{name}'" not in ran.stdout, (command, name)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_a_key_leaves_during_the_start_even_if_the_weights_never_come(
    command: list[str], key: bytes, endless: Path
) -> None:
    with Program.minivllm(*command, "--model", endless) as program:
        program.wait_for("LOADING")
        program.wait_for("Weights")
        program.press(b"ls -l\r")
        program.press(key)
        assert program.wait_for_end() == 0
        program.check_it_is_restored()
        assert program.after_the_screen().strip() == ""
        assert program.num_unread_keys() == 0


def test_a_signal_leaves_during_the_start(endless: Path) -> None:
    with Program.minivllm("demo", "--model", endless) as program:
        program.wait_for("LOADING")
        program.process.send_signal(signal.SIGTERM)
        assert program.wait_for_end() == 128 + signal.SIGTERM
        program.check_it_is_restored()


@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_of_the_start_is_one_sentence_in_the_restored_terminal(
    command: list[str], tiny_random_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIVLLM_PROGRESS", str(tmp_path / "progress.json"))
    checkpoint = tmp_path / "damaged"
    shutil.copytree(tiny_random_path, checkpoint)
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with Program.minivllm(*command, "--model", checkpoint) as program:
        program.wait_for("LOADING")
        assert program.wait_for_end() == 1
        program.check_it_is_restored()
        (line,) = program.after_the_screen().strip().splitlines()
        assert line.startswith("minivllm: ") and "model.safetensors" in line


def test_too_little_memory_is_one_sentence_in_the_restored_terminal() -> None:
    options = ["--model", "house", "--num-gpu-blocks-override", "100000000"]
    with Program.minivllm("live", *options) as program:
        assert program.wait_for_end() == 2
        program.check_it_is_restored()
        (line,) = program.after_the_screen().strip().splitlines()
        assert line.startswith("minivllm: A KV cache of 100000000 blocks needs")
