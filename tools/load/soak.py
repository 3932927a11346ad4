"""`make soak`: hundreds of streams for minutes, then thousands of clients that disconnect early.

    python tools/load/soak.py --clients 200 --seconds 600 --disconnects 10000

The exit status is 1 if a request fails, if memory, threads, files or blocks are not freed, or if
the server's speed is too low relative to the offline engine (`--min-ratio`).

The offline engine runs before and after the server, because the machine's speed changes. Memory is
compared after a warm-up and at equal load, because the first requests always add memory.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from server_process import Reading, ServerProcess, serve
from soak_clients import Load, disconnect, stream_until

BLOCKS_OF_A_CLIENT = 10
"""Just enough blocks for the longest requests of an average client. A block takes memory only after
its first use, and all blocks should be used during the warm-up."""


def main() -> int:
    args = _arguments()
    options = {
        "model": args.model,
        "dtype": "float32",
        "max_num_seqs": args.clients,
        "num_gpu_blocks_override": args.clients * BLOCKS_OF_A_CLIENT,
    }
    before = _offline(args, options)
    command = [
        part
        for name, value in options.items()
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]
    with serve(*command, "--max-waiting-requests", str(2 * args.clients)) as server:
        result = asyncio.run(_soak(server, args))
        result["exit_status"] = server.end()
    after = _offline(args, options)
    result["offline_tokens_per_second"] = [before, after]
    result["ratio"] = result["tokens_per_second"] / statistics.mean((before, after))
    result["options"] = options | {"clients": args.clients, "seconds": args.seconds}
    checks = _checks(result, args)
    result["checks"] = {name: passed for name, _, passed in checks}
    for name, shown, passed in checks:
        print(f"{'pass' if passed else 'FAIL'}  {name:<28} {shown}")
    for error in result["errors"][:10]:
        print(f"A request failed: {error}")
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1))
    return 0 if all(passed for *_, passed in checks) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="smollm2", help="default: %(default)s")
    parser.add_argument(
        "--clients",
        type=int,
        default=200,
        help="number of concurrent streams (default: %(default)s)",
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="default: %(default)s")
    parser.add_argument(
        "--offline-seconds",
        type=float,
        default=60.0,
        help="duration of each of two offline runs (default: %(default)s)",
    )
    parser.add_argument("--disconnects", type=int, default=10_000, help="default: %(default)s")
    parser.add_argument(
        "--min-ratio",
        type=float,
        default=0.95,
        help="minimum speed relative to the offline engine (default: %(default)s)",
    )
    # The limit is for growth at full load, after the warm-up. The allocator adds MiBs of noise.
    parser.add_argument(
        "--max-growth-mib",
        type=float,
        default=32.0,
        help="maximum growth of memory (default: %(default)s)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all measurements")
    return parser.parse_args()


async def _soak(server: ServerProcess, args: argparse.Namespace) -> dict:
    await asyncio.to_thread(server.start_its_pools)
    fresh = server.read()
    load, readings = Load(), []
    warm_up = _warm_up(args)
    begin = time.monotonic() + warm_up
    end = begin + args.seconds
    streams = asyncio.create_task(stream_until(server.url, args.clients, end, load))
    await asyncio.sleep(warm_up)
    while time.monotonic() < end:
        readings.append(await asyncio.to_thread(server.read))
        await asyncio.sleep(args.seconds / 100)
    await streams
    quiet = await server.when_idle(fresh)
    await disconnect(server.url, args.disconnects, args.clients)
    left = await server.when_idle(fresh)
    return {
        "fresh": asdict(fresh),
        "after_the_streams": asdict(quiet),
        "after_the_disconnects": asdict(left),
        "under_load": [asdict(one) for one in readings],
        "requests": len(load.tokens),
        "errors": load.errors,
        "tokens_per_second": load.tokens_per_second(begin, end),
        "growth_mib": _growth(readings),
    }


def _warm_up(args: argparse.Namespace) -> float:
    """The seconds of the warm-up: a fifth of the longer run."""
    return max(args.seconds, args.offline_seconds) / 5


def _growth(readings: list[Reading]) -> float:
    """By how many MiB memory grew from the first fifth of the readings to the last fifth."""
    fifth = max(1, len(readings) // 5)
    ends = (
        statistics.median(one.memory_mib for one in part)
        for part in (readings[:fifth], readings[-fifth:])
    )
    first, last = ends
    return last - first


def _offline(args: argparse.Namespace, options: dict) -> float:
    command = [
        sys.executable,
        str(Path(__file__).with_name("soak_offline.py")),
        json.dumps(options),
    ]
    command += [str(args.clients), str(_warm_up(args)), str(args.offline_seconds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])["tokens_per_second"]


def _checks(result: dict, args: argparse.Namespace) -> list[tuple[str, str, bool]]:
    fresh, quiet, left = (
        result[name] for name in ("fresh", "after_the_streams", "after_the_disconnects")
    )

    def given_back(name: str, may_be: Callable[[float], float]) -> tuple[str, str, bool]:
        shown = (
            f"{fresh[name]:g} fresh, {quiet[name]:g} after the streams, {left[name]:g} after the"
            " disconnects"
        )
        return name, shown, max(quiet[name], left[name]) <= may_be(fresh[name])

    requests, errors = result["requests"], len(result["errors"])
    return [
        ("requests", f"{requests} answered, {errors} failed", requests > 0 and errors == 0),
        (
            "memory",
            f"{result['growth_mib']:+.1f} MiB under load",
            result["growth_mib"] <= args.max_growth_mib,
        ),
        (
            "memory after",
            f"{left['memory_mib'] - quiet['memory_mib']:+.1f} MiB from the disconnects",
            left["memory_mib"] - quiet["memory_mib"] <= args.max_growth_mib,
        ),
        # Four workers start on demand and stay: one more that tokenizes, two for chats, and one for
        # long texts.
        given_back("threads", lambda fresh: fresh + 4),
        given_back("files", lambda fresh: fresh),
        given_back("running", lambda fresh: 0),
        given_back("waiting", lambda fresh: 0),
        given_back("cache_usage", lambda fresh: 0),
        ("end", f"exit status {result['exit_status']}", result["exit_status"] == 0),
        (
            "throughput",
            (
                f"{result['tokens_per_second']:.1f} tokens/s, offline"
                f" {' and '.join(f'{rate:.1f}' for rate in result['offline_tokens_per_second'])}:"
                f" {result['ratio']:.3f}"
            ),
            result["ratio"] >= args.min_ratio,
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
