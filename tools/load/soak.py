"""`make soak`: hundreds of streams for minutes, then thousands of clients that disconnect early.

    python tools/load/soak.py --clients 200 --seconds 600 --disconnects 10000

The exit status is 1 if an answer lacks a token, or if memory, threads, files or blocks are not
freed. Memory is compared after a warm-up and at equal load, because the first requests always add
memory. `make overhead` compares the server's speed with the engine's.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time

from server_process import Input, ServerProcess, serve

BLOCKS_OF_A_CLIENT = 10
"""Just enough blocks for the longest requests of an average client. A block takes memory only after
its first use, and all blocks should be used during the warm-up."""
MAX_GROWTH_MIB = 32.0
"""For growth at full load, after the warm-up. The allocator adds MiBs of noise."""
PATIENCE = 300.0


def make_request(server: ServerProcess, number: int) -> tuple[bytes, int]:
    """Return request `number` and its number of output tokens. Five in a row are of five kinds.

    Prompts are random, so that there are no prefix cache hits. Lengths are random, so that requests
    start and end at every step.
    """
    draw = random.Random(number)
    kind = ("ids", "text", "chat", "two", "logprobs")[number % 5]
    ids = [draw.randint(10, 250) for _ in range(draw.randint(8, 48))]  # ordinary tokens everywhere
    text = "".join(draw.choices("abcdefgh ", k=len(ids)))  # never more tokens than characters
    fields = {
        "max_tokens": draw.randint(16, 64), "n": 2 if kind == "two" else 1, "ignore_eos": True,
        "logprobs": 3 if kind == "logprobs" else None, "temperature": 0,
        "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip
    if kind == "chat":
        fields["messages"] = [{"role": "user", "content": text}]
    else:
        fields["prompt"] = text if kind == "text" else ids
    path = "/v1/chat/completions" if kind == "chat" else "/v1/completions"
    return server.post(path, fields), fields["n"] * fields["max_tokens"]


async def stream_until(server: ServerProcess, clients: int, end: float) -> list[str]:
    """Each client sends request after request. Returns what is wrong with each answer, or ""."""
    numbers, found = iter(range(1 << 40)), []

    async def client() -> None:
        while time.monotonic() < end:
            request, num_tokens = make_request(server, next(numbers))
            answer = await server.ask(Input(request, PATIENCE))
            whole = b'"completion_tokens":%d,' % num_tokens in answer and b"[DONE]" in answer
            found.append("" if whole else f"{answer[:200]!r} ... {answer[-200:]!r}")

    await asyncio.gather(*(client() for _ in range(clients)))
    return found


def departures(server: ServerProcess, times: int) -> list[Input]:
    """Requests whose clients leave after a random time, half of them with a reset."""
    draw = random.Random(0)
    return [
        Input(
            make_request(server, number)[0],
            seconds=draw.choice([0.0, 0.01, 0.1, 0.5]),
            reset=draw.random() < 0.5,
        )
        for number in range(times)
    ]


async def soak(server: ServerProcess, args: argparse.Namespace) -> dict[str, tuple[str, bool]]:
    """Name of a check -> what was found, and whether it may be so."""
    await server.ask(Input(make_request(server, 2)[0]))
    fresh = server.read()
    warm_up = args.seconds / 5
    end = time.monotonic() + warm_up + args.seconds
    streams = asyncio.create_task(stream_until(server, args.clients, end))
    await asyncio.sleep(warm_up)
    memory_mib = []
    while time.monotonic() < end:
        memory_mib.append((await asyncio.to_thread(server.read)).memory_mib)
        await asyncio.sleep(args.seconds / 100)
    bad = [fault for fault in await streams if fault]
    quiet = await server.when_idle(fresh)
    await server.ask_all(departures(server, args.disconnects), args.clients)
    left = await server.when_idle(fresh)
    fifth = max(1, len(memory_mib) // 5)
    growth = statistics.median(memory_mib[-fifth:]) - statistics.median(memory_mib[:fifth])
    after = left.memory_mib - quiet.memory_mib

    def given_back(of: str, more: int = 0) -> tuple[str, bool]:
        values = [getattr(reading, of) for reading in (fresh, quiet, left)]
        return "{:g} fresh, {:g} and {:g} after".format(*values), max(values) <= values[0] + more

    num_answers = len(streams.result())
    return {
        "answers": (f"{num_answers - len(bad)} complete, {len(bad)} not {bad[:3]}", not bad),
        "memory": (f"{growth:+.1f} MiB under load", growth <= MAX_GROWTH_MIB),
        "memory after": (f"{after:+.1f} MiB from the disconnects", after <= MAX_GROWTH_MIB),
        # Pools start their threads on demand and keep them; a leak would have one for each client.
        "threads": given_back("threads", more=8),
        "files": given_back("files"),
        "requests and blocks": given_back("in_use"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="smollm2", help="default: %(default)s")
    parser.add_argument("--clients", type=int, default=200, help="streams (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=600.0, help="default: %(default)s")
    parser.add_argument("--disconnects", type=int, default=10_000, help="default: %(default)s")
    args = parser.parse_args()
    command = ["--model", args.model, "--dtype", "float32", "--max-num-seqs", str(args.clients)]
    command += ["--num-gpu-blocks-override", str(args.clients * BLOCKS_OF_A_CLIENT)]
    with serve(*command, "--max-waiting-requests", str(2 * args.clients)) as server:
        checks = asyncio.run(soak(server, args))
        status = server.end()
    checks["end"] = (f"exit status {status}", status == 0)
    for name, (found, passed) in checks.items():
        print(f"{'pass' if passed else 'FAIL'}  {name:<20} {found}")
    return 0 if all(passed for _, passed in checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
