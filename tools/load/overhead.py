"""`make overhead`: compares the time per output token of 16 streams with and without the server.

    python tools/load/overhead.py --streams 16 --rounds 5

One engine is measured in both ways, in turn: over HTTP, with a client in another process, and
stepped directly while the server is idle. With two engines, different memory addresses could change
the speed by more than the limit. The exit status is 1 if the ratio of the medians exceeds the
limit.

The client measures when messages arrive, so each message must have exactly one token. The option
`return_token_ids` makes the server send a message even for a token without text. Over HTTP, streams
do not start at the same time, so only the time in which all streams run is measured.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.sampling_params import RequestOutputKind, SamplingParams
from minivllm.server.app import assemble
from minivllm.server.options import ServerOptions
from minivllm.server.run import Server, bind, url_of

PROMPT_TOKENS = 32
_FIRST_TOKEN, _LAST_TOKEN = 10, 250
"""Ids in this range are ordinary tokens in every known vocabulary."""

Times = list[list[float]]


def main() -> int:
    args = _arguments()
    if args.client is not None:
        return asyncio.run(_be_client(args))
    options = {"model": args.model, "dtype": "float32", "max_num_seqs": args.streams}
    options["num_gpu_blocks_override"] = args.streams * (2 + (PROMPT_TOKENS + args.tokens) // 16)
    found = asyncio.run(_measure(LLMEngine.from_config(EngineConfig(**options)), args))
    medians = {name: statistics.median(values) for name, values in found.items()}
    ratio = medians["server"] / medians["offline"]
    for name, values in found.items():
        shown = ", ".join(f"{value:.2f}" for value in values)
        print(f"{name:<8} {medians[name]:.3f} ms per output token, median of {shown}")
    passed = ratio <= args.max_ratio
    print(
        f"{'pass' if passed else 'FAIL'}  {args.streams} streams: {ratio:.3f} of the offline"
        " engine's time"
    )
    if args.json:
        Path(args.json).write_text(
            json.dumps({"ms_per_token": found, "ratio": ratio, "options": options}, indent=1)
        )
    return 0 if passed else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="smollm2", help="default: %(default)s")
    parser.add_argument(
        "--streams",
        type=int,
        default=16,
        help="number of concurrent streams (default: %(default)s)",
    )
    parser.add_argument(
        "--tokens",
        type=int,
        default=128,
        help="tokens of each answer, 2 or more (default: %(default)s)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help="rounds with and without the server, each (default: %(default)s)",
    )
    parser.add_argument("--max-ratio", type=float, default=1.03, help="default: %(default)s")
    parser.add_argument("--json", metavar="FILE", help="write all measurements")
    parser.add_argument("--client", metavar="URL", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.tokens < 2 or args.streams < 1 or args.rounds < 1:
        parser.error("--tokens must be 2 or more, --streams and --rounds 1 or more.")
    return args


def ms_per_token(times: Times) -> float:
    """The mean time between tokens of a stream while all streams run, in milliseconds."""
    begin, end = (
        max(stream_times[0] for stream_times in times),
        min(stream_times[-1] for stream_times in times),
    )
    within = [[t for t in stream_times if begin <= t <= end] for stream_times in times]
    gaps = [
        (stream_times[-1] - stream_times[0]) / (len(stream_times) - 1)
        for stream_times in within
        if len(stream_times) > 1
    ]
    if not gaps:
        sys.exit("The first streams ended before the last had begun: use more --tokens.")
    return statistics.mean(gaps) * 1e3


async def _measure(engine: LLMEngine, args: argparse.Namespace) -> dict[str, list[float]]:
    settings = ServerOptions(port=0)
    assembled = assemble(engine, settings)
    found: dict[str, list[float]] = {"server": [], "offline": []}
    with bind(settings) as bound:
        server = Server(assembled.app, assembled.service, settings)
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        client = await asyncio.create_subprocess_exec(
            sys.executable, __file__, *sys.argv[1:], "--client", url_of(bound),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24,
        )  # fmt: skip
        try:
            for number in range(args.rounds + 1):
                offline = await assembled.service.ask_engine(
                    partial(_step, args=args, seed=2 * number)
                )
                served = await _ask(client, 2 * number + 1)
                if number > 0:  # round 0 is a warm-up
                    found["offline"].append(ms_per_token(offline))
                    found["server"].append(ms_per_token(served))
        finally:
            client.stdin.close()
            await client.wait()
            server.begin_exit()
            await serving
    return found


def _prompts(seed: int, streams: int) -> list[list[int]]:
    """Return prompts that differ for each seed, so that they do not hit the prefix cache."""
    draw = random.Random(seed)
    return [
        [draw.randint(_FIRST_TOKEN, _LAST_TOKEN) for _ in range(PROMPT_TOKENS)]
        for _ in range(streams)
    ]


def _step(engine: LLMEngine, args: argparse.Namespace, seed: int) -> Times:
    """Run the streams without a server, in the engine's thread."""
    params = SamplingParams(
        temperature=0, max_tokens=args.tokens, ignore_eos=True, output_kind=RequestOutputKind.DELTA
    )
    times: dict[str, list[float]] = {}
    for i, prompt in enumerate(_prompts(seed, args.streams)):
        times[f"offline-{i}"] = []
        engine.add_request(f"offline-{i}", {"prompt_token_ids": prompt}, params)
    while engine.has_unfinished_requests():
        outputs = engine.step()
        now = time.perf_counter()
        for output in outputs:
            times[output.request_id].append(now)
    return list(times.values())


# ---- the client, in its own process ----


async def _ask(client: asyncio.subprocess.Process, seed: int) -> Times:
    client.stdin.write(b"%d\n" % seed)
    await client.stdin.drain()
    if not (line := await client.stdout.readline()):
        raise RuntimeError("the client has ended; its output is above")
    return json.loads(line)


async def _be_client(args: argparse.Namespace) -> int:
    while line := await asyncio.to_thread(sys.stdin.readline):
        prompts = _prompts(int(line), args.streams)
        times = await asyncio.gather(
            *(_stream(args.client, prompt, args.tokens) for prompt in prompts)
        )
        print(json.dumps(times), flush=True)
    return 0


async def _stream(url: str, prompt: list[int], num_tokens: int) -> list[float]:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    fields = {"prompt": prompt, "max_tokens": num_tokens, "ignore_eos": True, "temperature": 0}
    body = json.dumps(fields | {"stream": True, "return_token_ids": True}).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type:"
        " application/json\r\n"
    )
    writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    times = [time.perf_counter() async for line in reader if line.startswith(b'data: {"id"')]
    writer.close()
    if len(times) != num_tokens:
        raise RuntimeError(
            f"the server sent {len(times)} messages instead of one for each of {num_tokens} tokens"
        )
    return times


if __name__ == "__main__":
    sys.exit(main())
