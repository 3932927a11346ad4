"""A peer in its own Python: requests, answers, and every kind of failure."""

import sys
import time
from pathlib import Path

import pytest
from support.patience import SOON
from support.scripted_peer import python_with_vllm

from minivllm.errors import BenchError
from minivllm.lab.bench.throughput import peer_process
from minivllm.lab.bench.throughput.peer_process import PeerProcess
from minivllm.lab.bench.throughput.workloads import BenchRequest

SETTINGS = {
    "model": "m", "dtype": "float32", "num_threads": 1, "max_num_seqs": 4, "max_model_len": 64,
}  # fmt: skip
REQUESTS = [BenchRequest([7, 8], 3), BenchRequest([5], 2)]


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
        assert peer.peak_rss_bytes > 1_000_000


def test_at_the_end_the_peer_and_its_own_children_are_gone(tmp_path):
    pids = tmp_path / "pids"
    starting = (
        "import subprocess; child = subprocess.Popen(['sleep', '600']); "
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')"
    )
    with PeerProcess("vllm", python_with_vllm(tmp_path, starting=starting), SETTINGS):
        peer, grandchild = map(int, pids.read_text().split())
        assert is_alive(peer) and is_alive(grandchild)
    deadline = time.monotonic() + SOON
    while is_alive(grandchild) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(peer) and not is_alive(grandchild)


@pytest.mark.parametrize(
    ("generating", "sentence"),
    [
        (
            "print('out of luck', file=sys.stderr, flush=True); os._exit(9)",
            "vllm ended unexpectedly.*out of luck",
        ),
        ("time.sleep(600)", "vllm did not answer"),
    ],
    ids=["dies", "hangs"],
)
def test_a_peer_that_dies_or_hangs_is_ended_and_reported(
    generating, sentence, tmp_path, monkeypatch
):
    monkeypatch.setattr(peer_process, "END_LIMIT_S", 0.2)
    python = python_with_vllm(tmp_path, generating=generating)
    limits = (SOON, SOON if "_exit" in generating else 0.2)
    with (
        PeerProcess("vllm", python, SETTINGS, limits_s=limits) as peer,
        pytest.raises(BenchError, match=sentence),
    ):
        peer.generate(REQUESTS)


@pytest.mark.parametrize(
    ("python", "words"),
    [
        ("/no/such/python", "is not a program"),
        ("/bin/true", "is not Python 3"),
        (sys.executable, "has no llama_cpp: .* -m pip install llama-cpp-python"),
    ],
)
def test_a_python_without_the_peer_gives_one_sentence(python, words):
    with pytest.raises(BenchError, match=words):
        PeerProcess("llama.cpp", python, SETTINGS)
