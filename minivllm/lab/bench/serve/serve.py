"""`minivllm bench serve`: measures a running server under load, like `vllm bench serve`.

    minivllm bench serve --base-url http://127.0.0.1:8000 --request-rate 4 --num-prompts 100

It works with any server that has `/v1/completions`. Requests arrive as a Poisson process or all at
once, and responses are streamed. The report has vLLM's lines, so that servers can be compared. The
wait for `--max-concurrency`, before a request is sent, is not counted.
"""

import argparse
import asyncio
import json
import math
import os
import sys

from minivllm.lab.common.report import add_json_argument, positive_int, request_rate

PERCENTILES = (50.0, 90.0, 99.0)
API_KEYS = ("VLLM_API_KEY", "OPENAI_API_KEY")
"""Environment variables for the key; the first variable that is set is used."""
SHOWN_ERRORS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--base-url", metavar="URL", help="the server (default: from --host and --port)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    parser.add_argument("--port", type=positive_int, default=8000, help="default: %(default)s")
    parser.add_argument("--endpoint", default="/v1/completions", help="default: %(default)s")
    parser.add_argument(
        "--model", help="the model's name on the server (default: the first that the server lists)"
    )
    parser.add_argument(
        "--num-prompts",
        type=positive_int,
        default=100,
        help="number of requests (default: %(default)s)",
    )
    parser.add_argument(
        "--random-input-len",
        type=positive_int,
        default=128,
        help="words per prompt, about one token each (default: %(default)s)",
    )
    parser.add_argument(
        "--random-output-len",
        type=positive_int,
        default=128,
        help="max_tokens of a request (default: %(default)s)",
    )
    parser.add_argument(
        "--request-rate",
        type=request_rate,
        default=math.inf,
        help="requests per second, Poisson (default: inf, all at once)",
    )
    parser.add_argument(
        "--max-concurrency",
        type=positive_int,
        help="maximum number of concurrent requests (default: no limit)",
    )
    parser.add_argument("--temperature", type=float, default=0.0, help="default: %(default)s")
    parser.add_argument(
        "--ignore-eos",
        action="store_true",
        help="let every answer run to its max_tokens (for vLLM and minivllm)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed for prompts and arrivals (default: %(default)s)"
    )
    parser.add_argument(
        "--metric-percentiles",
        type=_percentiles,
        default=PERCENTILES,
        help="percentiles of each latency (default: 50,90,99)",
    )
    parser.epilog = f"An API key is read from the environment: {' or else '.join(API_KEYS)}."
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Measure and report; return 1 if a request failed."""
    # So that `minivllm bench --help` does not wait for numpy and an HTTP client.
    from minivllm.lab.bench.serve.load import run_load
    from minivllm.lab.bench.serve.metrics import report, summarise

    base_url = (args.base_url or f"http://{args.host}:{args.port}").rstrip("/").removesuffix("/v1")
    api_key = next(filter(None, map(os.environ.get, API_KEYS)), None)
    timings, seconds, model = asyncio.run(run_load(args, base_url, api_key))
    result = summarise(timings, seconds, args.metric_percentiles)
    errors = [timing.error for timing in timings if timing.error is not None]
    for error in errors[:SHOWN_ERRORS]:
        print(f"A request failed: {error}.", file=sys.stderr)
    lines = report(result, args.request_rate, args.max_concurrency, args.metric_percentiles)
    print("\n".join(lines), file=sys.stderr if args.json else sys.stdout)
    if args.json:
        asked = {
            "bench": "serve",
            "base_url": base_url,
            "model": model,
            "num_prompts": args.num_prompts,
            "request_rate": None if math.isinf(args.request_rate) else args.request_rate,
            "max_concurrency": args.max_concurrency,
            "seed": args.seed,
        }
        print(json.dumps(asked | result | {"errors": errors[:SHOWN_ERRORS]}), flush=True)
    return 1 if errors else 0


def _percentiles(text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = (-1.0,)
    if not all(0 <= value <= 100 for value in values):
        raise argparse.ArgumentTypeError(
            f"must be numbers from 0 to 100, as in 50,90,99; got {text!r}."
        )
    return values
