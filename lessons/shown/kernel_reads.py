"""What each version of the decode kernel reads: the real kernels are interpreted and traced.

Only the positions of the reads matter, so the inputs are random numbers in the shapes of a model.
Each output is compared with that of the reference implementation. With a CUDA device, kernels are
compiled and cannot be traced, so they are interpreted in a separate process.
"""

import json
from dataclasses import asdict, dataclass

from minivllm import lessons, runtime
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

    Raises `KernelTraceError` if the kernels cannot be interpreted.
    """
    fields = asdict(shape) | {"splits": SPLITS}
    if interprets_here():
        found = lessons.look_here(**fields)
    else:
        given = json.dumps(fields).encode()
        found = json.loads(runtime.run_interpreted("minivllm.lessons.shown.kernel_looks", given))
    return {version: Look(**seen) for version, seen in found.items()}
