"""`make attack`: attack a server over HTTP, on loopback, and check that it recovers completely.

    python tools/load/attack.py                  all attacks
    python tools/load/attack.py large_bodies     one of them

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
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from attack_inputs import BODIES, CONTENT_TYPES, POSTS, RAW
from server_process import Input, ServerProcess, serve, status_of

MIB = 1 << 20
CANARY = {"prompt": "Hello there", "max_tokens": 16, "temperature": 0, "ignore_eos": True}
STREAM = {"prompt": "Hi", "max_tokens": 1000, "ignore_eos": True, "stream": True, "n": 2}
MAX_GROWTH_MIB = 150.0
"""Threads, caches and the C library's allocator may keep this much memory after the attacks."""
MAX_LEAK_MIB = 16.0
"""The second run of the attacks in `AGAIN` may add this much memory."""
AT_ONCE = {"half_open": 500, "stalled_uploads": 100, "large_answers": 10}
AGAIN = ("deaf_readers", "large_bodies", "large_answers")
"""The attacks that take the most memory. They run again, and must then add almost no memory."""


def attacks(server: ServerProcess) -> dict[str, list[Input]]:
    """The inputs of each attack."""
    post, host = server.post, urlsplit(server.url).netloc
    part = b"%x\r\n" % (MIB // 2) + b"x" * (MIB // 2) + b"\r\n"
    upload = server.head("POST", "/generate", "Transfer-Encoding: chunked\r\n") + part
    stream, events = post("/v1/completions", STREAM), server.head("GET", "/events")
    many = {"prompt": [60] * 500, "echo": True, "prompt_logprobs": 20, "logprobs": 20, "n": 8}
    large = [{f"k{i}": 1 for i in range(19_900)}, {"prompt": [60] * 250_000}]
    large += [{"prompt": "é" * 170_000}, {"prompt": ["a" * 16_000] * 60}]
    chat = {"messages": [{"role": "user", "content": "a<|im_end|>" * 90_000}]}
    floods = [post("/v1/completions", body) for body in large]
    floods.append(post("/v1/chat/completions", chat))
    bodies = [post(path, body) for body in BODIES for path in POSTS]
    types = [post(path, b'{"prompt":"x"}', kind) for kind in CONTENT_TYPES for path in POSTS]
    unread = Input(post("/tokenize", {"prompt": "a" * (MIB - 100)}), 120.0, at_most=1, reset=True)
    return {
        "bad_bodies": [Input(raw) for raw in bodies + types],
        "no_http": [Input(raw.replace("{host}", host).encode("latin-1"), 12.0) for raw in RAW],
        "half_open": [Input(b"GET /hea", 15.0)] * 500,
        "stalled_uploads": [Input(upload, 40.0)] * 100,
        "disconnects": [
            Input(stream, at_most=1 + n % 2000, reset=n % 2 == 0) for n in range(1000)
        ],
        "deaf_readers": [unread] * 60 + [Input(events, 2.0, at_most=1)] * 40,
        "long_texts": [
            Input(post("/tokenize", {"prompt": "hello wor" * (MIB // 9 - 20)}), 200.0)
        ] * 30,
        "large_bodies": [Input(raw, 120.0) for raw in floods * 40],
        "large_answers": [
            Input(post("/v1/completions", many | {"max_tokens": 100, "ignore_eos": True}), 120.0)
        ] * 20,
    }  # fmt: skip


@dataclass
class Others:
    """Two normal clients that send requests during an attack."""

    server: ServerProcess
    health: list[float] = field(default_factory=lambda: [0.0])
    completions: list[float] = field(default_factory=lambda: [0.0])
    texts: set[str] = field(default_factory=set)
    failed: int = 0

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
            answer = await self.server.ask(Input(self.server.head("GET", "/health")))
            self.failed += status_of(answer) != "200"
            self.health.append(time.monotonic() - began)
            await asyncio.sleep(0.05)

    async def _complete(self) -> None:
        while True:
            began = time.monotonic()
            self.texts.add(await self.canary())
            self.completions.append(time.monotonic() - began)

    async def canary(self) -> str:
        answer = await self.server.ask(Input(self.server.post("/v1/completions", CANARY), 600.0))
        return json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["text"]


async def run(server: ServerProcess, names: list[str]) -> list[str]:
    """Run the attacks and print a row for each. Returns what went wrong."""
    inputs, faults, memory_mib = attacks(server), [], {}
    if unknown := set(names) - inputs.keys():
        return [f"there is no attack {unknown.pop()!r}: choose from {', '.join(inputs)}"]
    expected = await Others(server).canary()
    await server.ask_all([Input(server.post("/v1/completions", STREAM))] * 30, 30)
    fresh = await server.when_idle()
    print(f"{'attack':<16} {'inputs':>6} {'health':>8} {'answer':>8} {'MiB':>6}  answers")
    for name in names or [*inputs, *AGAIN]:
        others = Others(server)
        async with others.beside():
            answers = await server.ask_all(inputs[name], AT_ONCE.get(name, 50))
        left = await server.when_idle(fresh)
        counts, growth = Counter(map(status_of, answers)), left.memory_mib - fresh.memory_mib
        print(
            f"{name:<16} {len(answers):>6} {max(others.health):>7.2f}s"
            f" {max(others.completions):>7.2f}s {growth:>+6.0f}  "
            + ", ".join(f"{status} {count}" for status, count in sorted(counts.items())),
            flush=True,
        )
        found = {f"status {status}": status.startswith("5") for status in counts}
        found |= {
            f"/health failed {others.failed} times": others.failed > 0,
            "the other client's answer changed": not others.texts <= {expected},
            f"not released: {left}": left.in_use or left.files > fresh.files,
            f"{growth:.0f} MiB more than before all attacks": growth > MAX_GROWTH_MIB,
        }
        if name in memory_mib:
            leak = left.memory_mib - memory_mib[name]
            found[f"{leak:.0f} MiB more, again"] = name == AGAIN[-1] and leak > MAX_LEAK_MIB
        faults += [f"{name}: {fault}" for fault, is_so in found.items() if is_so]
        memory_mib[name] = left.memory_mib
    print(f"memory: {fresh.memory_mib:.0f} MiB before, at most {server.peak_mib():.0f}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="tiny-random", help="default: %(default)s")
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help="run only these attacks")
    args = parser.parse_args()
    options = ("--dtype", "float32", "--events", "--num-gpu-blocks-override", "4000")
    with serve("--model", args.model, *options) as server:
        faults = asyncio.run(run(server, args.attacks))
        if (status := server.end()) != 0:
            faults.append(f"the server ended with status {status}")
    for fault in faults:
        print(f"FAIL  {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
