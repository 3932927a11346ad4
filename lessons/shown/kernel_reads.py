"""What each version of the decode kernel reads: the real kernels are interpreted and traced.

Only the positions of the reads matter, so the inputs are random numbers in the shapes of a model.
Each output is compared with that of the reference implementation. With a CUDA device, kernels are
compiled and cannot be traced, so they are interpreted in a separate process.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass

from minivllm.errors import LessonError
from minivllm.kernels import interprets_here

SPLITS = 2
"""Number of parts for the kernel `split`. The context is short, because interpreting is slow."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of one decode: a sequence, and padded rows as in a graph for a larger batch."""

    num_heads: int
    num_kv_heads: int
    head_size: int
    context: int
    block_size: int = 16
    padded_rows: int = 3


@dataclass(frozen=True, slots=True)
class Look:
    programs: int
    """Number of programs that read keys."""
    keys_read: int
    """Number of keys read by all programs together; a key is one head's vector for one token."""
    idle_programs: int
    """Number of programs that read no key: programs of padded rows, or that combine parts."""
    right: bool
    """Whether the output equals that of the reference implementation."""


def look(shape: Shape) -> dict[str, Look]:
    """Run and trace every kernel version once.

    Raises `LessonError` if the kernels cannot be interpreted.
    """
    fields = asdict(shape) | {"splits": SPLITS}
    if interprets_here():
        from minivllm.lessons.shown.kernel_looks import look_here  # late, because of Triton

        found = look_here(**fields)
    else:
        found = _look_elsewhere(json.dumps(fields))
    return {version: Look(**seen) for version, seen in found.items()}


def _look_elsewhere(fields: str) -> dict[str, dict[str, int]]:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "minivllm.lessons.shown.kernel_looks", fields]
    worker = subprocess.run(command, capture_output=True, env=environment, timeout=60)
    if worker.returncode != 0:
        last_words = worker.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise LessonError(f"The kernels could not be watched: {last_words}")
    return json.loads(worker.stdout)
