"""Starts a `minivllm serve` process, sends bytes to it, and reads its state from outside.

Clients write to sockets: an HTTP library would refuse to send malformed requests, and would need
more processor time than the server. The server's log goes to a temporary file, because a pipe that
nobody reads would block it.
"""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

SECONDS_UNTIL_IDLE = 60.0
JSON = "application/json"
_SERVING = r'"message": "serving", "url": "([^"]+)"'
_METRIC = r"^vllm:{}\{{[^}}]*\}} (\S+)$"


class Input(NamedTuple):
    """What one client sends, and how it reads: until the server closes, or until a limit."""

    raw: bytes
    seconds: float = 60.0
    at_most: int = 1 << 30
    """Bytes to read."""
    reset: bool = False
    """Reset the connection in place of closing it."""


@dataclass(frozen=True, slots=True)
class Reading:
    memory_mib: float
    threads: int
    files: int
    """Open files and sockets. Pipes do not count: they lead to child processes."""
    in_use: float
    """Running and waiting requests, and the share of the KV cache's blocks that requests hold."""


class ServerProcess:
    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.url = url
        self._process = process
        self._proc = Path("/proc") / str(process.pid)

    def head(self, method: str, path: str, fields: str = "Connection: close\r\n") -> bytes:
        host = urlsplit(self.url).netloc
        return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n".encode("latin-1")

    def post(self, path: str, body: bytes | dict, kind: str = JSON) -> bytes:
        body = json.dumps(body).encode() if isinstance(body, dict) else body
        fields = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
        return self.head("POST", path, fields) + body

    async def ask(self, sent: Input) -> bytes:
        """Send on a new connection and return the answer, which may be cut or empty."""
        address, answer = urlsplit(self.url), bytearray()
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(sent.seconds):
                writer.write(sent.raw)
                while len(answer) < sent.at_most and (piece := await reader.read(1 << 16)):
                    answer += piece
        writer.transport.abort() if sent.reset else writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        return bytes(answer)

    async def ask_all(self, inputs: Iterable[Input], at_once: int) -> list[bytes]:
        """The answers, in no particular order."""
        inputs = iter(inputs)

        async def client() -> list[bytes]:
            return [await self.ask(prompt) for prompt in inputs]

        clients = await asyncio.gather(*(client() for _ in range(at_once)))
        return [answer for answers in clients for answer in answers]

    def read(self) -> Reading:
        status = (self._proc / "status").read_text()
        targets = map(_target, (self._proc / "fd").iterdir())
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as answer:
            metrics = answer.read().decode()
        names = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
        return Reading(
            memory_mib=_kib(status, "VmRSS") / 1024,
            threads=int(re.search(r"Threads:\s+(\d+)", status)[1]),
            files=sum(not target.startswith("pipe:") for target in targets),
            in_use=sum(
                float(re.search(_METRIC.format(name), metrics, re.MULTILINE)[1]) for name in names
            ),
        )

    def peak_mib(self) -> float:
        return _kib((self._proc / "status").read_text(), "VmHWM") / 1024

    async def when_idle(self, fresh: Reading | None = None) -> Reading:
        """Wait, at most a minute, until no request is left and no more files than `fresh`'s."""
        until = time.monotonic() + SECONDS_UNTIL_IDLE
        while True:
            await asyncio.sleep(1.0)
            reading = await asyncio.to_thread(self.read)
            quiet = not reading.in_use and (fresh is None or reading.files <= fresh.files)
            if quiet or time.monotonic() > until:
                return reading

    def end(self) -> int:
        self._process.terminate()
        return self._process.wait(120)


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:  # the file was closed after the folder was listed
        return "pipe:"


def _kib(status: str, name: str) -> int:
    return int(re.search(rf"{name}:\s+(\d+)", status)[1])


def status_of(answer: bytes) -> str:
    return answer[9:12].decode("latin-1") if answer.startswith(b"HTTP/1.") else "closed"


@contextlib.contextmanager
def serve(*options: str) -> Iterator[ServerProcess]:
    """Start `minivllm serve` on a free port of the loopback address."""
    command = [sys.executable, "-m", "minivllm", "serve", "--port", "0", *options]
    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(command, stderr=log)
        try:
            while (found := re.search(_SERVING, said := Path(log.name).read_text())) is None:
                if process.poll() is not None:
                    raise RuntimeError(f"the server did not start:\n{said}")
                time.sleep(0.1)
            yield ServerProcess(process, found[1])
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
