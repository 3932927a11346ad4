"""Random traffic through vLLM's own scheduler, recorded and compared after every call.

    python random_traffic.py FOLDER FIRST LAST      with a Python that has vLLM

It writes FOLDER/SEED.jsonl for each seed and prints one line of JSON for it: how many comparisons
were made, and what differed first.
"""

import json
import os
import sys
from random import Random

from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from minivllm.lab.twin.simulated import SimulatedVllm

TOKENS = range(100, 120)
"""Few different ones, so that prefixes repeat."""
STOP = 119


def options(rng: Random) -> dict:
    is_async, block_size = rng.random() < 0.6, rng.choice([4, 16])
    return {
        "is_async": is_async,
        "block_size": block_size,
        "num_blocks": rng.randint(70, 110) if block_size == 4 else rng.randint(18, 40),
        "max_num_seqs": rng.randint(2, 8),
        "max_num_batched_tokens": rng.choice([16, 32, 64, 128]),
        "max_model_len": 256,
        "enable_prefix_caching": rng.random() < 0.8,
        "scheduling_policy": rng.choice(["fcfs", "fcfs", "fcfs", "priority"]),
        "watermark": rng.choice([0.0, 0.0, 0.1]),
        "num_drafts": 3 if not is_async and rng.random() < 0.4 else 0,
    }


def tokens(rng: Random, number: int) -> list[int]:
    return [rng.choice(TOKENS) for _ in range(number)]


def run(seed: int) -> dict:
    rng = Random(seed)
    chosen = options(rng)
    engine = SimulatedVllm(
        lambda request, drafts: tokens(rng, 1 + rng.randint(0, drafts)), **chosen
    )
    scheduler, arrived = engine.scheduler, 0
    prefixes = [tokens(rng, rng.randint(0, 100)) for _ in range(3)]
    for _ in range(300):
        if arrived < 40 and rng.random() < 0.2:
            prompt = rng.choice(prefixes) + tokens(rng, rng.randint(1, 60))
            stop = [STOP] if rng.random() < 0.3 else None
            params = {"max_tokens": rng.randint(1, 60), "ignore_eos": True, "stop_token_ids": stop}
            engine.add(f"r{arrived}", prompt, rng.randint(0, 3), **params)
            arrived += 1
        if rng.random() < 0.02 and scheduler.requests:
            aborted = rng.choice(list(scheduler.requests))
            engine.abort(aborted)
        if rng.random() < 0.01:
            preempts = rng.random() < 0.5 and not chosen["is_async"]
            scheduler.reset_prefix_cache(reset_running_requests=preempts)
        for request in scheduler.running if chosen["num_drafts"] else ():
            if not request.is_prefill_chunk and rng.random() < 0.6:
                request.spec_token_ids = tokens(rng, rng.randint(1, chosen["num_drafts"]))
        engine.step()
    while engine.is_busy:
        engine.step()
    scheduler.shutdown()
    tap = scheduler.tap
    return {
        "seed": seed,
        "is_async": isinstance(scheduler, AsyncScheduler),
        "num_checks": tap.writer.num_checks,
        "difference": None if tap.failure is None else str(tap.failure),
    }


def main() -> None:
    folder, first, last = sys.argv[1], *map(int, sys.argv[2:])
    os.environ["MINIVLLM_RECORD_VERIFY"] = "1"
    for seed in range(first, last):
        os.environ["MINIVLLM_RECORD"] = f"{folder}/{seed}.jsonl"
        print(json.dumps(run(seed)), flush=True)


if __name__ == "__main__":
    main()
