"""Triton, imported in the right mode: compiled where there is a CUDA device, interpreted where
there is none.

Every kernel module takes `tl` and `triton` from here. Knows nothing of any kernel.

The easy thing to get wrong is the moment. Triton asks the environment variable `TRITON_INTERPRET`
when a function is decorated, and its own library (`tl.sum`, `tl.max`) is decorated when Triton is
imported: set later, half of a kernel is compiled code and half is not. So the variable is set
before the import, and it is an error to find Triton imported in the other mode. (`import
transformers` alone does not import it, but importing a model class of transformers does.) A user
who sets the variable has the last word.

Source: triton 3.7 `triton/runtime/jit.py` (`jit`), `triton/runtime/interpreter.py`.
"""

import os
import sys
from importlib.metadata import version
from typing import Any

import torch


class TritonModeError(ImportError):
    """Triton was imported, by somebody else and too early, in a mode that cannot run here."""


if "triton" not in sys.modules and not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

INTERPRETED = not isinstance(tl.sum, triton.runtime.JITFunction)
"""Whether kernels run as Python over numpy arrays, on tensors in the machine's memory."""

if not INTERPRETED and "TRITON_INTERPRET" not in os.environ and not torch.cuda.is_available():
    raise TritonModeError(
        "Triton was imported before minivllm.kernels and there is no CUDA device, so its kernels"
        " can only be interpreted: set the environment variable TRITON_INTERPRET=1 before Python"
        " starts."
    )


def _major_minor(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def _multiply_bfloat16_as_numbers() -> None:
    """Mend the interpreter's `tl.dot`: it keeps bfloat16 as bits in uint16 and would multiply those
    as integers.
    """
    from triton.runtime.interpreter import interpreter_builder

    original = interpreter_builder.create_dot

    def create_dot(a: Any, b: Any, d: Any, *options: Any) -> Any:
        if a.dtype.scalar == tl.bfloat16:
            a, b = (interpreter_builder.cast_impl(x, tl.float32) for x in (a, b))
        return original(a, b, d, *options)

    interpreter_builder.create_dot = create_dot


if (
    INTERPRETED
    and _major_minor(triton.__version__) < (3, 7)
    and _major_minor(version("numpy")) >= (2, 4)
):
    raise TritonModeError(
        f"Triton {triton.__version__} cannot interpret kernels with numpy {version('numpy')}:"
        " install numpy below 2.4, or triton 3.7 or newer."
    )

if INTERPRETED:
    _multiply_bfloat16_as_numbers()

__all__ = ["INTERPRETED", "TritonModeError", "tl", "triton"]
