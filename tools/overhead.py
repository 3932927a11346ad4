"""`make overhead`: time per output token of 16 streams through the server, against the same 16 in the offline engine.

    python tools/overhead.py --streams 16 --rounds 5

Both engines are started first, as processes, and then take turns; the ratio is that of the medians over the rounds. It
fails, with exit status 1, if the server is slower by more than the bar.

The easy thing to get wrong is when a token counts as there. A client sees a token when its message comes, so each message
has to be one token (`return_token_ids` has one sent even where the text is held back); offline it is when `step` returns.
And the prompts of a round are new, for both the same, or the prefix cache would shift the first token.
"""

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from server_process import serve

from minivllm.config import EngineConfig
from minivllm.engine import LLMEngine
from minivllm.sampling_params import RequestOutputKind, SamplingParams

PROMPT_TOKENS = 32
_FIRST_TOKEN, _LAST_TOKEN = 10, 250
"""Every vocabulary that we know has ordinary tokens there."""


def main() -> int:
    args = _arguments()
    options = {"model": args.model, "dtype": "float32", "max_num_seqs": args.streams}
    options["num_gpu_blocks_override"] = args.streams * (2 + (PROMPT_TOKENS + args.tokens) // 16)
    if args.offline:
        return _serve_offline(options, args)
    command = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    found: dict[str, list[float]] = {"server": [], "offline": []}
    with serve(*command) as server, _offline(sys.argv[1:]) as offline:
        for number in range(args.rounds + 1):
            round_ = {
                "server": asyncio.run(_through_server(server.url, args, number)),
                "offline": _ask(offline, number),
            }
            if number > 0:  # the first warms both up
                for name, seconds in round_.items():
                    found[name].append(seconds * 1e3)
    medians = {name: statistics.median(values) for name, values in found.items()}
    ratio = medians["server"] / medians["offline"]
    for name, values in found.items():
        told = ", ".join(f"{value:.2f}" for value in values)
        print(f"{name:<8} {medians[name]:.3f} ms per output token, median of {told}")
    passed = ratio <= args.max_ratio
    print(f"{'pass' if passed else 'FAIL'}  {args.streams} streams: {ratio:.3f} of the offline engine's time")
    if args.json:
        Path(args.json).write_text(json.dumps({"ms_per_token": found, "ratio": ratio, "options": options}, indent=1))
    return 0 if passed else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="smollm2", help="default: %(default)s")
    parser.add_argument("--streams", type=int, default=16, help="at once (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=128, help="of each answer, 2 or more (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of each of the two (default: %(default)s)")
    parser.add_argument("--max-ratio", type=float, default=1.03, help="default: %(default)s")
    parser.add_argument("--json", metavar="FILE", help="write all that was measured")
    parser.add_argument("--offline", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.tokens < 2 or args.streams < 1 or args.rounds < 1:
        parser.error("--tokens must be 2 or more, --streams and --rounds 1 or more.")
    return args


def _prompts(number: int, streams: int) -> list[list[int]]:
    draw = random.Random(number)
    return [[draw.randint(_FIRST_TOKEN, _LAST_TOKEN) for _ in range(PROMPT_TOKENS)] for _ in range(streams)]


# ---- through the server ----


async def _through_server(url: str, args: argparse.Namespace, number: int) -> float:
    """Median over the streams of the mean time of a token after the first."""
    prompts = _prompts(number, args.streams)
    return statistics.median(await asyncio.gather(*(_stream(url, prompt, args.tokens) for prompt in prompts)))


async def _stream(url: str, prompt: list[int], num_tokens: int) -> float:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    fields = {"prompt": prompt, "max_tokens": num_tokens, "ignore_eos": True, "temperature": 0}
    body = json.dumps(fields | {"stream": True, "return_token_ids": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    times = [time.perf_counter() async for line in reader if line.startswith(b'data: {"id"')]
    writer.close()
    if len(times) != num_tokens:
        raise RuntimeError(f"the server sent {len(times)} messages and not one for each of {num_tokens} tokens")
    return (times[-1] - times[0]) / (num_tokens - 1)


# ---- offline ----


@contextlib.contextmanager
def _offline(arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, __file__, *arguments, "--offline"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait(60)


def _ask(offline: subprocess.Popen[str], number: int) -> float:
    print(number, file=offline.stdin, flush=True)
    if not (line := offline.stdout.readline()):
        raise RuntimeError("the offline engine has ended; what it wrote above says why")
    return float(line)


def _serve_offline(options: dict, args: argparse.Namespace) -> int:
    """Runs in a process of its own: a round for each number that it is sent."""
    engine = LLMEngine.from_config(EngineConfig(**options))
    params = SamplingParams(temperature=0, max_tokens=args.tokens, ignore_eos=True, output_kind=RequestOutputKind.DELTA)
    for line in sys.stdin:
        first, last = {}, {}
        for i, prompt in enumerate(_prompts(int(line), args.streams)):
            engine.add_request(str(i), {"prompt_token_ids": prompt}, params)
        while engine.has_unfinished_requests():
            outputs = engine.step()
            now = time.perf_counter()
            for output in outputs:
                first.setdefault(output.request_id, now)
                last[output.request_id] = now
        means = [(last[name] - first[name]) / (args.tokens - 1) for name in first]
        print(statistics.median(means), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
