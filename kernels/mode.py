"""Import Triton in the right mode: compiled with a CUDA device, interpreted without one.

Every kernel module imports `tl` and `triton` from here. Triton reads `TRITON_INTERPRET` whenever a
function is decorated, and decorates its own functions (`tl.sum`, `tl.max`) at import. If we set the
variable later, half of a kernel would be compiled and half interpreted. So we set it before the
import, unless the user has set it, and raise an error if other code has imported Triton in the
wrong mode. (Importing a model class of transformers imports Triton; `import transformers` does
not.)

Source: triton 3.7 `triton/runtime/jit.py` (`jit`), `triton/runtime/interpreter.py`.
"""

import os
import sys
from importlib.metadata import version
from typing import Any

import torch


class TritonModeError(ImportError):
    """Other code imported Triton first, in a mode that cannot run here."""


if "triton" not in sys.modules and not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.runtime.interpreter import InterpretedFunction, interpreter_builder  # noqa: E402

INTERPRETED = not isinstance(tl.sum, triton.runtime.JITFunction)
"""Whether kernels are interpreted: they run as Python with numpy, on CPU tensors."""

if not INTERPRETED and "TRITON_INTERPRET" not in os.environ and not torch.cuda.is_available():
    raise TritonModeError(
        "There is no CUDA device, so kernels must be interpreted, but Triton was imported before"
        " minivllm.kernels: set the environment variable TRITON_INTERPRET=1 before Python starts."
    )


def _major_minor(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def _multiply_bfloat16_as_numbers() -> None:
    """Fix the interpreter's `tl.dot`, which treats the bits of a bfloat16 as an integer."""
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

__all__ = [
    "INTERPRETED", "InterpretedFunction", "TritonModeError", "interpreter_builder", "tl", "triton",
]  # fmt: skip
