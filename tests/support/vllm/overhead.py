"""What the recorder costs: rounds with its hooks and without, in turn. Needs a Python that has vLLM.

python overhead.py 4 32 128                 microseconds per sequence and step, of an invented model
python overhead.py 8 --model CHECKPOINT     tokens per second of a real one: with / without
"""

import os
import sys
import time
from collections.abc import Callable
from statistics import quantiles

from vllm import LLM, SamplingParams

from minivllm.lab.twin.simulated import SimulatedVllm
from minivllm.vllm.scheduler import RecordingScheduler
from minivllm.vllm.tap import Tap

STEPS, ROUNDS, MOST = 200, 9, {"max_num_batched_tokens": 4096, "max_model_len": 256}
PAIRS = 21


def in_turn(tap: Tap, figures_of_a_round: Callable, rounds: int) -> dict[str, list]:
    """The figures of each round. Who begins changes."""
    hooks = [(owner, name, vars(owner)[name]) for owner, name in tap.hooked]
    found = {"with": [], "without": []}
    for kind in ([*found, *reversed(found)] * rounds)[: 2 * rounds]:
        for owner, name, hook in hooks:
            setattr(owner, name, hook) if kind == "with" else vars(owner).pop(name, None)
        found[kind].append(figures_of_a_round())
    tap.writer.close(60.0)  # the next engine can have the file
    assert tap.failure is None
    return found


def scheduling(num_seqs: int, is_async: bool) -> dict[str, list[float]]:
    """Processor time: of the scheduler's thread, and of all threads."""
    sizes = {"num_blocks": num_seqs * 20, "block_size": 16, "max_num_seqs": num_seqs, **MOST}
    sample = lambda request, drafts: [request.num_tokens]  # noqa: E731
    engine = SimulatedVllm(sample, is_async=is_async, enable_prefix_caching=False, **sizes)

    def a_round() -> list[float]:
        for number in range(num_seqs):
            engine.add(f"r{number}", [number] * 16, max_tokens=STEPS + 20, ignore_eos=True)
        for _ in range(10):
            engine.step()
        start = time.thread_time(), time.process_time()
        for _ in range(STEPS):
            engine.step()
        ended = time.thread_time(), time.process_time()
        while engine.is_busy:
            engine.step()
        return [1e6 * (b - a) / STEPS / num_seqs for a, b in zip(start, ended, strict=True)]

    found = in_turn(engine.scheduler.tap, a_round, ROUNDS)
    # Other programs only add to it.
    return {kind: [*map(min, zip(*rows, strict=True))] for kind, rows in found.items()}


def serving(model: str, num_seqs: int) -> list[float]:
    """Tokens per second with the recorder to those without, in pairs of short rounds: quartiles."""
    llm = LLM(model, dtype="float32", enforce_eager=True, max_num_seqs=num_seqs, **MOST,
              scheduler_cls=RecordingScheduler)  # fmt: skip
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)

    def seconds() -> float:
        start = time.perf_counter()
        llm.generate(["Once upon a time"] * num_seqs, params, use_tqdm=False)
        return time.perf_counter() - start

    seconds()
    found = in_turn(llm.llm_engine.engine_core.engine_core.scheduler.tap, seconds, PAIRS)
    return quantiles([b / a for a, b in zip(found["with"], found["without"], strict=True)])


if __name__ == "__main__":
    numbers, _, model = " ".join(sys.argv[1:]).partition("--model ")
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}
    os.environ.setdefault("MINIVLLM_RECORD", "/tmp/overhead.jsonl")
    for number in map(int, numbers.split()):
        if model:
            print(number, serving(model, number), flush=True)
        else:
            print(number, "sync", scheduling(number, False), "async", scheduling(number, True))
