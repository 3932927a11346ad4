"""When a real vLLM cannot be recorded, it serves on, and what was recorded is whole."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.full_disk import REASON
from support.vllm.real_vllm import ROOT, VLLM_PYTHON, needs_vllm

from minivllm.cli import main
from minivllm.events.fold import Fold
from minivllm.events.recording.recording import Recording
from minivllm.runtime.store.model_store import resolve_for_transformers

pytestmark = [needs_vllm, pytest.mark.slow]

ASKED = ROOT / "tests/support/vllm/asked.py"
SIZES = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32}
WINDOW = {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "sliding_window": 32,
    "layer_types": ["sliding_attention", "full_attention"],
}  # fmt: skip
CONNECTOR = {"kv_connector": "ExampleConnector", "kv_role": "kv_both"}


class RealVllm:
    def __init__(self, folder: Path, model: dict, options: dict) -> None:
        """It records in run.jsonl of the folder."""
        shutil.copytree(resolve_for_transformers("tiny-random"), folder, dirs_exist_ok=True)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | SIZES | model))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "VLLM_CPU_KVCACHE_SPACE": "1"}
        environment |= {"MINIVLLM_RECORD": str(folder / "run.jsonl"), "HF_HUB_OFFLINE": "1"}
        self.process = subprocess.Popen(
            [VLLM_PYTHON, ASKED, folder, json.dumps(options)], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self.said = []  # lines of its log
        self._wait_for("ready\n")

    def ask(self, question: str = "a question", *, waits: bool = True) -> None:
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        if waits:
            self._wait_for("100\n")

    def _wait_for(self, answer: str) -> None:
        while (line := self.process.stdout.readline()) != answer:
            assert line, "vLLM has ended"
            self.said += [line] * ("] minivllm " in line)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)


@pytest.fixture
def start(tmp_path):
    started = []

    def start(model: dict | None = None, **options: object) -> RealVllm:
        started.append(RealVllm(tmp_path, model or {}, options))
        return started[-1]

    yield start
    for vllm in started:
        vllm.kill()
        vllm.process.communicate()


def checked(path: Path) -> Fold:
    """The end of a recording that all commands open, and that has no incomplete line."""
    picture = str(path.with_suffix(".svg"))
    assert main(["once", str(path), "--json"]) == main(["shot", str(path), "-o", picture]) == 0
    recording = Recording(path)
    assert recording.last_step > 20 and recording.size == recording.indexed_bytes
    return recording.head


@pytest.mark.parametrize("reason", [REASON, "was removed"])
def test_vllm_serves_on_when_its_file_is_full_or_gone(reason, start, tmp_path):
    path, vllm = tmp_path / "run.jsonl", start()
    vllm.ask()
    os.link(path, tmp_path / "kept.jsonl")
    if reason == REASON:
        vllm.ask(str(path.stat().st_size + 5000))
    else:
        path.unlink()
    while len(vllm.said) < 2:
        vllm.ask()
    vllm.ask()
    assert reason in vllm.said[1] and "vLLM continues" in vllm.said[1] and len(vllm.said) == 2
    checked(tmp_path / "kept.jsonl")


def test_a_second_engine_is_refused_and_a_killed_one_leaves_a_whole_recording(start, tmp_path):
    path, first, second = tmp_path / "run.jsonl", start(), start()
    second.ask()
    assert [f"does not record: another engine writes {path}" in line for line in second.said] == [
        True
    ]
    first.ask()
    first.ask("the question during which it is killed", waits=False)
    while path.read_text().count('"request.arrived"') < 2:
        time.sleep(0.01)
    first.kill()
    assert len(checked(path).sequences) == 1


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("several groups of KV cache layers", {"model": WINDOW}),
        ("a KV connector", {"kv_transfer_config": CONNECTOR}),
    ],
)
def test_vllm_serves_without_a_recording_what_has_no_events(what, options, start, tmp_path):
    vllm = start(**options)
    vllm.ask()
    assert [f"does not record: this vLLM has {what}" in line for line in vllm.said] == [True]
    assert not (tmp_path / "run.jsonl").exists()
