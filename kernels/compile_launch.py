"""Compiles a kernel for a GPU that is not here, exactly as a launch would, and reads what the
machine code needs.

`record_launches` runs the wrappers of the kernels over tensors that have shapes and no memory
(device `meta`) and catches what they would have launched, so a report is about the kernels as they
are used: their constants, their number of warps, and what Triton knows of the arguments (a stride
that is a multiple of 16, say). `compile_launch` then does what Triton's launcher does, with a
target in place of a device.

Knows nothing of which kernels there are. The easy thing to get wrong is what a spill is: registers
that did not fit live in the function's stack frame, so the frame's size tells, and "LOCAL" in
`cuobjdump`'s table does not.

Source: triton 3.7 `triton/runtime/jit.py` (`create_function_from_signature`, `_pack_args`),
`triton/tools/compile.py`.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch

from minivllm.kernels.mode import INTERPRETED, TritonModeError, triton

TARGETS = {"sm_80": 80, "sm_90": 90, "sm_100": 100}
"""A100, H100 and H200, B200."""

_POINTERS = {
    torch.float32: "*fp32",
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
_DIVISIBLE_BY_16 = [["tt.divisibility", 16]]


@dataclass(frozen=True)
class Launch:
    """A kernel, its grid and all its arguments."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]
    """By the names of the kernel's parameters."""
    options: dict[str, int]
    """`num_warps` and the like."""


class Description(NamedTuple):
    """What of a launch is compiled in; the rest are values that one compilation takes as they
    come.
    """

    signature: dict[str, str]
    """Parameter -> type, or `constexpr`."""
    constants: dict[tuple[int, ...], Any]
    """Path of a parameter -> value."""
    attributes: dict[tuple[int, ...], list]
    """Path of a parameter -> what is known of its value."""


@dataclass(frozen=True)
class Compiled:
    """What one kernel needs on one target."""

    registers: int
    """Of a thread."""
    spills: int
    """Bytes of a thread's registers that did not fit and live in memory."""
    shared_bytes: int
    """Shared memory of a program."""
    matrix_instructions: list[str]
    """Kinds of matrix instructions in the PTX: `mma`, `wgmma`, `tcgen05`."""


def record_launches(run: Callable[[], object]) -> list[Launch]:
    """What `run` would launch; nothing is launched."""
    if INTERPRETED:
        raise TritonModeError(
            "Kernels are interpreted in this process: set TRITON_INTERPRET=0 to compile them."
        )
    launches: list[Launch] = []

    def record(kernel: Any, *args: Any, grid: tuple[int, ...], warmup: bool, **kwargs: Any) -> None:
        named = dict(zip(kernel.arg_names, args, strict=False))
        named |= {name: kwargs.pop(name) for name in kernel.arg_names if name in kwargs}
        launches.append(Launch(kernel, grid, named, kwargs))

    with mock.patch.object(triton.runtime.JITFunction, "run", record):
        run()
    return launches


def compile_launch(launch: Launch, target: str) -> Compiled:
    """Compile for one of `TARGETS`, or take the result from Triton's cache of compiled kernels."""
    described = describe(launch)
    source = triton.compiler.ASTSource(
        launch.kernel, described.signature, described.constants, described.attributes
    )
    gpu = triton.backends.compiler.GPUTarget("cuda", TARGETS[target], 32)
    compiled = triton.compile(source, target=gpu, options=launch.options)
    registers, frame_bytes = _resource_usage(compiled.asm["cubin"])
    return Compiled(
        registers=registers,
        spills=frame_bytes,
        shared_bytes=compiled.metadata.shared,
        matrix_instructions=matrix_instructions(compiled.asm["ptx"]),
    )


def describe(launch: Launch) -> Description:
    """What Triton compiles a kernel for: launches that are described alike share one
    compilation.
    """
    signature, constants, attributes = {}, {}, {}
    for index, parameter in enumerate(launch.kernel.params):
        value = launch.arguments[parameter.name]
        is_special = not parameter.do_not_specialize
        signature[parameter.name] = kind = _kind(value, parameter.is_constexpr, is_special)
        if kind == "constexpr":
            constants[(index,)] = value
        elif isinstance(value, torch.Tensor) or (
            isinstance(value, int) and is_special and value % 16 == 0
        ):
            attributes[(index,)] = _DIVISIBLE_BY_16  # torch allocates at multiples of 512 bytes
    return Description(signature, constants, attributes)


def _kind(value: Any, is_constexpr: bool, is_special: bool) -> str:
    """How Triton's signature says what an argument is."""
    # a 1 is compiled in: strides often are
    if is_constexpr or (isinstance(value, int) and is_special and value == 1):
        return "constexpr"
    if isinstance(value, torch.Tensor):
        return _POINTERS[value.dtype]
    if isinstance(value, float):
        return "fp32"
    return "i32" if -(2**31) <= value < 2**31 else "i64"


def matrix_instructions(ptx: str) -> list[str]:
    """Which kinds of matrix instructions there are in this PTX, sorted."""
    found = re.findall(
        r"^\s*(?:@%?!?\w+\s+)?(mma|wgmma|tcgen05)\.(?:\w+\.)*?mma|^\s*(mma)\.sync",
        ptx,
        re.MULTILINE,
    )
    return sorted({first or second for first, second in found})


def _resource_usage(cubin: bytes) -> tuple[int, int]:
    """Registers of a thread and bytes of its stack frame, from the tool that Triton brings."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    registers, frame = re.search(r"REG:(\d+) STACK:(\d+)", text).groups()
    return int(registers), int(frame)
