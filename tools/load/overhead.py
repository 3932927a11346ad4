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
from urllib.parse import urlsplit

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.sampling_params import RequestOutputKind, SamplingParams
from minivllm.server.app import assemble
from minivllm.server.options import ServerOptions
from minivllm.server.run import Server, bind, url_of

PROMPT_TOKENS, NUM_TOKENS = 32, 128
MAX_RATIO = 1.03

Times = list[list[float]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="smollm2", help="default: %(default)s")
    parser.add_argument("--streams", type=int, default=16, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="of each way (default: %(default)s)")
    parser.add_argument("--client", metavar="URL", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client is not None:
        return asyncio.run(be_client(args.client, args.streams))
    blocks = args.streams * (2 + (PROMPT_TOKENS + NUM_TOKENS) // 16)
    config = EngineConfig(
        model=args.model, dtype="float32", max_num_seqs=args.streams, num_gpu_blocks_override=blocks
    )
    found = asyncio.run(measure(LLMEngine.from_config(config), args))
    for name, values in found.items():
        shown = ", ".join(f"{value:.2f}" for value in values)
        print(f"{name:<8} {statistics.median(values):.3f} ms per output token, median of {shown}")
    ratio = statistics.median(found["server"]) / statistics.median(found["offline"])
    word = "pass" if ratio <= MAX_RATIO else "FAIL"
    print(f"{word}  {args.streams} streams: {ratio:.3f} of the offline engine's time")
    return 0 if ratio <= MAX_RATIO else 1


def ms_per_token(times: Times) -> float:
    """The mean time between tokens of a stream while all streams run, in milliseconds."""
    begin, end = max(stream[0] for stream in times), min(stream[-1] for stream in times)
    within = [[t for t in stream if begin <= t <= end] for stream in times]
    return 1e3 * statistics.mean((times[-1] - times[0]) / (len(times) - 1) for times in within)


async def measure(engine: LLMEngine, args: argparse.Namespace) -> dict[str, list[float]]:
    settings = ServerOptions(port=0)
    assembled = assemble(engine, settings)
    found: dict[str, list[float]] = {"server": [], "offline": []}
    with bind(settings) as bound:
        server = Server(assembled.app, assembled.service, settings)
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        client = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--client", url_of(bound), "--streams", str(args.streams),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24,
        )  # fmt: skip
        try:
            for number in range(args.rounds + 1):
                prompts = make_prompts(2 * number, args.streams)
                offline = await assembled.service.ask_engine(lambda own, p=prompts: step(own, p))
                client.stdin.write(b"%d\n" % (2 * number + 1))
                served = json.loads(await client.stdout.readline())
                if number > 0:  # round 0 is a warm-up
                    found["offline"].append(ms_per_token(offline))
                    found["server"].append(ms_per_token(served))
        finally:
            client.stdin.close()
            await client.wait()
            server.begin_exit()
            await serving
    return found


def make_prompts(seed: int, streams: int) -> list[list[int]]:
    """Return prompts that differ for each seed, so that they do not hit the prefix cache."""
    draw = random.Random(seed)  # ids from 10 to 250 are ordinary tokens in every vocabulary
    return [[draw.randint(10, 250) for _ in range(PROMPT_TOKENS)] for _ in range(streams)]


def step(engine: LLMEngine, prompts: list[list[int]]) -> Times:
    """Run the streams without a server, in the engine's thread."""
    params = SamplingParams(
        temperature=0, max_tokens=NUM_TOKENS, ignore_eos=True, output_kind=RequestOutputKind.DELTA
    )
    times: dict[str, list[float]] = {}
    for number, prompt in enumerate(prompts):
        times[f"offline-{number}"] = []
        engine.add_request(f"offline-{number}", {"prompt_token_ids": prompt}, params)
    while engine.has_unfinished_requests():
        outputs = engine.step()
        now = time.perf_counter()
        for output in outputs:
            times[output.request_id].append(now)
    return list(times.values())


async def be_client(url: str, streams: int) -> int:
    """In a process of its own: answer each seed on standard input with the times of its tokens."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        prompts = make_prompts(int(line), streams)
        times = await asyncio.gather(*(stream(url, prompt) for prompt in prompts))
        print(json.dumps(times), flush=True)
    return 0


async def stream(url: str, prompt: list[int]) -> list[float]:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    fields = {"prompt": prompt, "max_tokens": NUM_TOKENS, "ignore_eos": True, "temperature": 0}
    body = json.dumps(fields | {"stream": True, "return_token_ids": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    times = [time.perf_counter() async for line in reader if line.startswith(b'data: {"id"')]
    writer.close()
    if len(times) != NUM_TOKENS:
        raise RuntimeError(f"the server sent {len(times)} messages for {NUM_TOKENS} tokens")
    return times


if __name__ == "__main__":
    sys.exit(main())
