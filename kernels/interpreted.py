"""`run_interpreted`: where kernels are compiled, interprets them in another process."""

import os
import subprocess
import sys

MAX_SECONDS = 120.0
"""Importing torch and Triton takes a few seconds, and a long context some more."""


class WorkerFailedError(RuntimeError):
    """The process failed, or took too long. The message is one sentence."""


def run_interpreted(module: str, given: bytes) -> bytes:
    """Run `python -m module` with `given` as its input, and return its output."""
    # A worker that sees no device starts faster and takes no device memory.
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", module]
    try:
        worker = subprocess.run(
            command, input=given, capture_output=True, env=environment, timeout=MAX_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise WorkerFailedError(
            f"Interpreting the kernel took more than {MAX_SECONDS:.0f} seconds and was stopped."
        ) from error
    if worker.returncode != 0:
        last_words = worker.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise WorkerFailedError(f"The process that interprets the kernel failed: {last_words}")
    return worker.stdout
