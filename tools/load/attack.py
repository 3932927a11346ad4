"""`make attack`: attack a server over HTTP, on loopback, and check that it recovers completely.

    python tools/load/attack.py --model tiny-random

During each attack, one client requests `/health`, and another requests a short completion. For each
attack, the tool prints the server's status codes and the longest waits of these two clients.

The exit status is 1 if the server answers with a 5xx status, if the completion changes, if the
server needs too much memory, or if a block, file or request is not freed. All KV cache blocks
are used before memory is first read, so that later growth is not the KV cache. The attacks that
take the most memory run twice: if the second run adds memory, there is a leak.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from attack_inputs import BODIES, CONTENT_TYPES, JSON, POSTS, RAW, mutated
from server_process import ServerProcess, serve

MIB = 1 << 20
CANARY = {"prompt": "Hello there", "max_tokens": 16, "temperature": 0, "ignore_eos": True}
STREAM = json.dumps(
    {"prompt": "Hi", "max_tokens": 1000, "ignore_eos": True, "stream": True, "n": 2}
).encode()


@dataclass
class AttackedServer:
    url: str
    answers: Counter[str] = field(default_factory=Counter)

    async def send(
        self, raw: bytes, *, seconds: float = 20.0, at_most: int = -1, rudely: bool = False
    ) -> str:
        """Send `raw` and return the status of the first answer.

        Reads until the server closes the connection, or until `at_most` bytes or `seconds`.
        """
        address = urlsplit(self.url)
        answer = b""
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(seconds):
                writer.write(raw)
                while at_most < 0 or len(answer) < at_most:
                    if not (piece := await reader.read(1 << 16)):
                        break
                    answer += piece[: 1 << 12] if answer else piece
        writer.transport.abort() if rudely else writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        status = answer[9:12].decode("latin-1") if answer.startswith(b"HTTP/1.") else "closed"
        self.answers[status] += 1
        return status

    async def post(self, path: str, body: bytes, content_type: str = JSON, **how: object) -> str:
        return await self.send(
            self.head(
                "POST", path, f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
            )
            + body,
            **how,
        )

    def head(self, method: str, path: str, more: str = "") -> bytes:
        address = urlsplit(self.url).netloc
        return (
            f"{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}\r\n"
        ).encode("latin-1")


async def _each(work: Iterable[Callable[[], Awaitable[object]]], at_once: int) -> None:
    numbered = iter(work)

    async def one() -> None:
        for ask in numbered:
            await ask()

    await asyncio.gather(*(one() for _ in range(at_once)))


async def bad_bodies(target: AttackedServer) -> None:
    await _each((lambda p=path, b=body: target.post(p, b) for body in BODIES for path in POSTS), 20)


async def content_types(target: AttackedServer) -> None:
    await _each(
        (
            lambda p=path, k=kind: target.post(p, b'{"prompt":"x"}', k)
            for kind in CONTENT_TYPES
            for path in POSTS
        ),
        20,
    )


async def mutations(target: AttackedServer) -> None:
    await _each(
        (lambda n=n: target.post(POSTS[n % len(POSTS)], mutated(n)) for n in range(5000)), 20
    )


async def no_http(target: AttackedServer) -> None:
    raw = [text.replace("{host}", urlsplit(target.url).netloc).encode("latin-1") for text in RAW]
    await _each((lambda r=one: target.send(r, seconds=12.0) for one in raw), 50)


async def stalled_uploads(target: AttackedServer) -> None:
    head = target.head("POST", "/generate", "Transfer-Encoding: chunked\r\n")
    part = b"%x\r\n" % (MIB // 2) + b"x" * (MIB // 2) + b"\r\n"
    await _each([lambda: target.send(head + part, seconds=40.0)] * 100, 100)


async def half_open(target: AttackedServer) -> None:
    await _each([lambda: target.send(b"GET /hea", seconds=15.0)] * 500, 500)


async def disconnects(target: AttackedServer) -> None:
    await _each(
        (
            lambda n=n: target.post(
                "/v1/completions", STREAM, at_most=1 + n % 2000, rudely=n % 2 == 0
            )
            for n in range(1000)
        ),
        50,
    )


async def deaf_readers(target: AttackedServer) -> None:
    """Request large answers, do not read them, and close the connections after a while."""
    large = json.dumps({"prompt": "a" * (MIB - 100)}).encode()
    await _each(
        [lambda: target.post("/tokenize", large, at_most=1, seconds=120.0, rudely=True)] * 60, 20
    )
    watch = target.head("GET", "/events")
    await _each([lambda: target.send(watch, at_most=1, seconds=2.0)] * 40, 40)


async def long_texts(target: AttackedServer) -> None:
    large = json.dumps({"prompt": "hello wor" * (MIB // 9 - 20)}).encode()
    await _each([lambda: target.post("/tokenize", large, seconds=200.0)] * 30, 30)


async def large_bodies(target: AttackedServer) -> None:
    bodies = [
        json.dumps({"messages": [{"role": "user", "content": "a<|im_end|>" * 90_000}]}),
        json.dumps({f"k{i}": 1 for i in range(19_900)}),
    ]
    bodies += [
        json.dumps({"prompt": [60] * 250_000}),
        json.dumps({"prompt": "é" * 170_000}),
        json.dumps({"prompt": ["a" * 16_000] * 60}),
    ]
    await _each(
        (
            lambda b=body: target.post(
                "/v1/chat/completions" if "messages" in b else "/v1/completions",
                b.encode(),
                seconds=120.0,
            )
            for body in bodies * 40
        ),
        50,
    )


async def large_answers(target: AttackedServer) -> None:
    body = json.dumps(
        {
            "prompt": [60] * 500,
            "echo": True,
            "prompt_logprobs": 20,
            "logprobs": 20,
            "max_tokens": 100,
            "n": 8,
            "ignore_eos": True,
        }
    ).encode()
    await _each([lambda: target.post("/v1/completions", body, seconds=120.0)] * 20, 10)


ATTACKS = (
    bad_bodies,
    content_types,
    mutations,
    no_http,
    half_open,
    stalled_uploads,
    disconnects,
    deaf_readers,
    long_texts,
    large_bodies,
    large_answers,
)


AGAIN = (deaf_readers, large_bodies, large_answers)
"""The attacks that take the most memory. They run again, and must then add almost no memory."""


class Others:
    """Two normal clients that send requests during an attack."""

    def __init__(self, url: str) -> None:
        self._target = AttackedServer(url)
        self.health: list[float] = []
        self.completions: list[float] = []
        self.texts: set[str] = set()
        self.failed = 0

    @contextlib.asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._ask_for_health()), asyncio.create_task(self._complete())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_for_health(self) -> None:
        while True:
            began = time.monotonic()
            self.failed += await self._target.send(self._target.head("GET", "/health")) != "200"
            self.health.append(time.monotonic() - began)
            await asyncio.sleep(0.05)

    async def _complete(self) -> None:
        while True:
            began = time.monotonic()
            self.texts.add(await self.canary())
            self.completions.append(time.monotonic() - began)

    async def canary(self) -> str:
        address = urlsplit(self._target.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        body = json.dumps(CANARY).encode()
        writer.write(
            self._target.head(
                "POST",
                "/v1/completions",
                f"Content-Type: {JSON}\r\nContent-Length: {len(body)}\r\n",
            )
            + body
        )
        answer = await reader.read(-1)
        writer.close()
        return json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["text"]


async def _attack(server: ServerProcess, names: list[str]) -> list[str]:
    faults: list[str] = []
    await asyncio.to_thread(server.start_its_pools)
    expected = await Others(server.url).canary()
    await _each(
        [lambda: AttackedServer(server.url).post("/v1/completions", STREAM, at_most=100_000)] * 30,
        30,
    )
    fresh = await server.when_idle()
    print(
        f"{'attack':<16} {'inputs':>6} {'seconds':>7}  {'health':>7} {'answer':>7}  {'MiB':>6} "
        " answers",
        flush=True,
    )
    memory_mib: list[float] = []
    for attack in [*ATTACKS, *AGAIN]:
        if names and attack.__name__ not in names:
            continue
        target, others = AttackedServer(server.url), Others(server.url)
        began = time.monotonic()
        async with others.beside():
            await attack(target)
        seconds, left = time.monotonic() - began, await server.when_idle(fresh)
        worst = [max(times, default=seconds) for times in (others.health, others.completions)]
        counts = ", ".join(f"{status} {count}" for status, count in sorted(target.answers.items()))
        print(
            f"{attack.__name__:<16} {target.answers.total():>6} {seconds:>7.1f}  "
            f"{worst[0]:>6.2f}s {worst[1]:>6.2f}s  "
            f"{left.memory_mib - fresh.memory_mib:>+6.0f}  {counts}", flush=True,
        )  # fmt: skip
        faults += [
            f"{attack.__name__}: status {status}"
            for status in target.answers
            if status.startswith("5")
        ]
        faults += [f"{attack.__name__}: /health failed {others.failed} times"] * (others.failed > 0)
        faults += [f"{attack.__name__}: the other clients' answer changed"] * (
            others.texts not in ({expected}, set())
        )
        faults += [f"{attack.__name__}: not released: {left}"] * (
            not left.is_idle or left.files > fresh.files
        )
        faults += [
            f"{attack.__name__}: {left.memory_mib - fresh.memory_mib:.0f} MiB more than before all"
            " attacks"
        ] * (left.memory_mib - fresh.memory_mib > MAX_GROWTH_MIB)
        memory_mib.append(left.memory_mib)
    if not names:
        leak = memory_mib[-1] - memory_mib[len(ATTACKS) - 1]
        print(f"the heaviest attacks, again: {leak:+.0f} MiB")
        faults += [f"the heaviest attacks, again: {leak:.0f} MiB more"] * (leak > MAX_LEAK_MIB)
    print(
        f"memory: {fresh.memory_mib:.0f} MiB before, {left.memory_mib:.0f} after, at most"
        f" {server.peak_mib():.0f}"
    )
    return faults


MAX_GROWTH_MIB = 150.0
"""Threads, caches and the C library's allocator may keep this much memory after the attacks."""
MAX_LEAK_MIB = 16.0
"""The second run of the attacks in `AGAIN` may add this much memory."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="tiny-random", help="default: %(default)s")
    parser.add_argument(
        "attacks",
        nargs="*",
        metavar="ATTACK",
        help=f"run only these attacks, of {', '.join(one.__name__ for one in ATTACKS)}",
    )
    args = parser.parse_args()
    with serve(
        "--model", args.model, "--dtype", "float32", "--events", "--num-gpu-blocks-override", "4000"
    ) as server:
        faults = asyncio.run(_attack(server, args.attacks))
        if (status := server.end()) != 0:
            faults.append(f"the server ended with status {status}")
    for fault in faults:
        print(f"FAIL  {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
