"""The engines that take turns, with one interface: requests in, token ids out.

`MinivllmEngine` uses `LLM(...)` like a user. `PeerProcess` runs vLLM or llama.cpp in a child process
with the peer's own Python (`peer_side/peer_main.py` explains the protocol). This costs the peer one
or two milliseconds per round, and rounds take seconds. `TransformersPeer` has a file of its own,
because importing transformers takes seconds.

A peer gets the same token ids, dtype, device and number of threads, and full batches. It has no
end-of-sequence token, because masking it (`min_new_tokens`) would be more work.
"""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Protocol, Self

from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.workloads import MAX_NUM_SEQS, BenchRequest
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams

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
        outputs = self.llm.generate(
            [{"prompt_token_ids": request.prompt_token_ids} for request in requests],
            [
                SamplingParams(temperature=0, max_tokens=request.max_tokens, ignore_eos=True)
                for request in requests
            ],
            use_tqdm=False,
        )
        return [output.outputs[0].token_ids for output in outputs]


class PeerProcess:
    """A `BenchEngine` in a child process. A context manager that ends the child."""

    def __init__(self, name: str, python: str, settings: dict[str, Any]) -> None:
        """Start the peer and wait until it has loaded its model."""
        self.name = name
        # Keep what the peer prints: if the peer fails, the error message quotes the last line.
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `__exit__`)
        try:
            self._child = subprocess.Popen(
                [python, "-u", str(_MAIN)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
                text=True,
                start_new_session=True,  # so that its own children can be killed, too
                env=os.environ | {"PYTHONPATH": ""},
            )
        except OSError as error:
            raise BenchError(
                f"--peer-python {python} is not a program: name the Python of an environment that"
                f" has {name}."
            ) from error
        try:
            ready = self._ask({"peer": name, **settings})
        except BaseException:
            self.__exit__()
            raise
        self.versions: dict[str, str] = ready["versions"]

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        prompts = [request.prompt_token_ids for request in requests]
        max_tokens = [request.max_tokens for request in requests]
        return self._ask({"prompts": prompts, "max_tokens": max_tokens})["outputs"]

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the child's answer. Raises `BenchError` if there is none, or if it is an error."""
        with contextlib.suppress(OSError):  # the child has ended: its output ends, too
            self._child.stdin.write(json.dumps(question) + "\n")
            self._child.stdin.flush()
        if not (line := self._child.stdout.readline()):
            self._words.seek(0)
            last = [word.strip() for word in self._words if word.strip()][-1:] or ["none."]
            raise BenchError(
                f"The process of {self.name} ended unexpectedly; its last output was:"
                f" {last[0][:300]}"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise BenchError(f"{self.name} failed: {answer['error']}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the child and every process that it has started."""
        with contextlib.suppress(OSError):
            self._child.stdin.close()  # the peer ends when its input ends
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(END_LIMIT_S)
        # Kill the group even after a normal end, because worker processes may still run.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        self._child.stdout.close()
        self._words.close()
