"""Starts a `minivllm serve` process for tools that test it from outside, and reads its state.

The server logs to a pipe and would block if the pipe filled up. So a thread reads and discards all
output after the line with the address.
"""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECONDS_UNTIL_IDLE = 60.0
_METRIC = re.compile(
    r"^vllm:(num_requests_running|num_requests_waiting|kv_cache_usage_perc)\{[^}]*\} (\S+)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Reading:
    memory_mib: float
    threads: int
    files: int
    """Open files and sockets. Pipes do not count: they lead to processes for chat templates."""
    running: float
    waiting: float
    cache_usage: float
    """Share of the KV cache's blocks that requests hold."""

    @property
    def is_idle(self) -> bool:
        return self.running == self.waiting == self.cache_usage == 0


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:  # the file was closed after the folder was listed
        return "pipe:"


class ServerProcess:
    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.url = url
        self._process = process

    def read(self) -> Reading:
        proc = Path("/proc") / str(self._process.pid)
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        files = sum(not _target(one).startswith("pipe:") for one in (proc / "fd").iterdir())
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as answer:
            metrics = dict(_METRIC.findall(answer.read().decode()))
        return Reading(
            memory_mib=int(status["VmRSS"].split()[0]) / 1024,
            threads=int(status["Threads"]),
            files=files,
            running=float(metrics["num_requests_running"]),
            waiting=float(metrics["num_requests_waiting"]),
            cache_usage=float(metrics["kv_cache_usage_perc"]),
        )

    def peak_mib(self) -> float:
        status = (Path("/proc") / str(self._process.pid) / "status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def start_its_pools(self) -> None:
        """Make the server start its permanent threads, so that later threads belong to requests."""
        body = b'{"prompt": "a", "max_tokens": 1}'
        asked = urllib.request.Request(
            f"{self.url}/v1/completions", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:
            answer.read()
        self.read()

    async def when_idle(self, fresh: Reading | None = None) -> Reading:
        """Wait, at most a minute, until no request is left and no more files than `fresh`'s."""
        until = time.monotonic() + SECONDS_UNTIL_IDLE
        while True:
            await asyncio.sleep(1.0)
            reading = await asyncio.to_thread(self.read)
            no_more_files = fresh is None or reading.files <= fresh.files
            if (reading.is_idle and no_more_files) or time.monotonic() > until:
                return reading

    def end(self) -> int:
        self._process.terminate()
        return self._process.wait(120)


@contextlib.contextmanager
def serve(*options: str) -> Iterator[ServerProcess]:
    """Start `minivllm serve` on a free port of the loopback address."""
    command = [sys.executable, "-m", "minivllm", "serve", "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            message = json.loads(line) if line.startswith("{") else {}
            if message.get("message") == "serving":
                break
        else:
            raise RuntimeError(f"the server did not start:\n{''.join(lines)}")
        threading.Thread(target=_discard, args=(process,), daemon=True).start()
        yield ServerProcess(process, message["url"])
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _discard(process: subprocess.Popen[str]) -> None:
    for _ in process.stderr:
        pass
