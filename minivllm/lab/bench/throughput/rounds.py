"""Engines take turns on the same requests: times, tokens, and medians over the rounds.

A machine's speed changes by tens of percent within an hour, so only neighbouring turns can be
compared: a ratio is the median of the rounds' own ratios. OpenMP threads keep spinning after their
work (Intel's: for 200 ms), so there is a pause before each turn if an engine runs in another
process.

`PeerProcess` runs vLLM or llama.cpp in a child process with the peer's own Python
(`peer_side/peer_main.py` explains the protocol). This costs the peer one or two milliseconds per
round, and rounds take seconds. A peer gets the same token ids, dtype, device and number of threads,
and full batches. It has no end-of-sequence token: masking it (`min_new_tokens`) would be more work.
"""

import gc
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, Self

from rich.progress import Progress

from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.workloads import MAX_NUM_SEQS, BenchRequest
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams

WARM_UP_TOKENS = 128  # most output tokens of a request in the first round, which is not counted
SETTLE_S = 0.3
END_LIMIT_S = 10.0
_MAIN = Path(__file__).parent / "peer_side" / "peer_main.py"


class BenchEngine(Protocol):
    name: str

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        """Return greedy continuations of exactly `max_tokens` tokens, one for each request."""


class MinivllmEngine:
    """Our engine through its public API. Options that are not given have their defaults."""

    def __init__(self, model: str, dtype: str, name: str = "minivllm", **options: Any) -> None:
        self.name = name
        self.llm = LLM(model=model, dtype=dtype, **{"max_num_seqs": MAX_NUM_SEQS} | options)

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        prompts = [{"prompt_token_ids": request.prompt_token_ids} for request in requests]
        greedy = partial(SamplingParams, temperature=0, ignore_eos=True)
        params = [greedy(max_tokens=request.max_tokens) for request in requests]
        outputs = self.llm.generate(prompts, params, use_tqdm=False)
        return [output.outputs[0].token_ids for output in outputs]


class PeerProcess:
    """A `BenchEngine` in a child process. A context manager that ends the child."""

    def __init__(self, name: str, python: str, settings: dict[str, Any]) -> None:
        self.name = name
        # Keep what the peer prints: if the peer fails, the error message quotes the last line.
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `__exit__`)
        try:
            # A session of its own, so that its children can be killed, too.
            self._child = subprocess.Popen(
                [python, "-u", str(_MAIN)], env=os.environ | {"PYTHONPATH": ""}, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            remedy = f"name the Python of an environment that has {name}"
            raise BenchError(f"--peer-python {python} is not a program: {remedy}.") from error
        with ExitStack() as unless_ready:
            unless_ready.callback(self.__exit__)
            self.versions: dict[str, str] = self._ask({"peer": name, **settings})["versions"]
            unless_ready.pop_all()

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        prompts = [request.prompt_token_ids for request in requests]
        max_tokens = [request.max_tokens for request in requests]
        return self._ask({"prompts": prompts, "max_tokens": max_tokens})["outputs"]

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the child's answer. Raises `BenchError` if there is none, or if it is an error."""
        with suppress(OSError):  # the child has ended: its output ends, too
            self._child.stdin.write(json.dumps(question) + "\n")
            self._child.stdin.flush()
        if not (line := self._child.stdout.readline()):
            self._words.seek(0)
            last = (self._words.read().strip() or "none.").splitlines()[-1][:300]
            raise BenchError(
                f"The process of {self.name} ended unexpectedly; its last output was: {last}"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise BenchError(f"{self.name} failed: {answer['error']}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):
            self._child.stdin.close()  # the peer ends when its input ends
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(END_LIMIT_S)
        # Kill the group even after a normal end, because worker processes may still run.
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        self._child.stdout.close()
        self._words.close()


@dataclass(slots=True)
class EngineRounds:
    """Measurements of one engine; entry i of each list is round i."""

    name: str
    runs: list[float] = field(default_factory=list)  # seconds
    outputs: list[list[list[int]]] = field(default_factory=list)  # token ids of each request

    @property
    def speeds(self) -> list[float]:
        """Output tokens per second."""
        rounds = zip(self.outputs, self.runs, strict=True)
        return [sum(map(len, outputs)) / run for outputs, run in rounds]

    @property
    def tokens_per_s(self) -> float:
        return statistics.median(self.speeds)

    @property
    def figures(self) -> dict[str, object]:
        return {"name": self.name, "tokens_per_s": self.tokens_per_s, "runs": self.runs}

    def ratios(self, peer: "EngineRounds") -> list[float]:
        """Return for each round this engine's speed divided by the peer's."""
        return [ours / theirs for ours, theirs in zip(self.speeds, peer.speeds, strict=True)]

    def ratio(self, peer: "EngineRounds") -> float:
        return statistics.median(self.ratios(peer))

    def identical(self, peer: "EngineRounds") -> float:
        """Return the share of the requests, over all rounds, in which both wrote the same."""
        pairs = zip(chain(*self.outputs), chain(*peer.outputs), strict=True)
        return statistics.fmean(ours == theirs for ours, theirs in pairs)


def measure_rounds(
    engines: list[BenchEngine],
    requests_of: list[list[BenchRequest]],
    progress: Progress,
    label: str,
    settle_s: float = 0.0,
) -> list[EngineRounds]:
    """Run rounds in strict turns.

    requests_of: the requests of the warm-up, and of each round
    settle_s: seconds of rest before each turn
    """
    task = progress.add_task(label, total=len(requests_of) * len(engines))
    measured = [EngineRounds(engine.name) for engine in engines]
    for number, requests in enumerate(requests_of):
        if number == 0:
            requests = [replace(r, max_tokens=min(r.max_tokens, WARM_UP_TOKENS)) for r in requests]
        for engine, rounds in zip(engines, measured, strict=True):
            turn = f"round {number}" if number else "warm-up"
            progress.update(task, description=f"{label}: {turn}, {engine.name}", refresh=True)
            time.sleep(settle_s)
            seconds, outputs = _timed(engine, requests)
            if number:
                rounds.runs.append(seconds)
                rounds.outputs.append(outputs)
            progress.update(task, advance=1, refresh=True)
        if number:
            speeds = ", ".join(f"{rounds.name} {rounds.speeds[-1]:.1f}" for rounds in measured)
            turn = f"round {number} of {len(requests_of) - 1}"
            progress.console.print(f"{label}, {turn}: {speeds} tokens/s")
    progress.remove_task(task)
    return measured


def _timed(engine: BenchEngine, requests: list[BenchRequest]) -> tuple[float, list[list[int]]]:
    gc.collect()  # so that no engine pays for the garbage of another
    started = time.monotonic()
    outputs = engine.generate(requests)
    seconds = time.monotonic() - started
    if [len(output) for output in outputs] != [request.max_tokens for request in requests]:
        raise BenchError(
            f"{engine.name} did not return all requested tokens, so its speed is not reported."
        )
    return seconds, outputs
