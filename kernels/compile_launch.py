"""Compile a kernel for a GPU that is not there, as a launch would, and read its resource usage.

`record_launches` runs the kernels' wrappers over tensors without memory (device `meta`) and records
their launches, with the engine's constants, warps and strides. `compile_launch` then does the work
of Triton's launcher, for a type of GPU instead of a device.

Spilled registers are stored in the function's stack frame, so the size of the frame gives the
spills. The column "LOCAL" of `cuobjdump` does not include them.

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
    torch.int8: "*i8",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
_DIVISIBLE_BY_16 = [["tt.divisibility", 16]]


@dataclass(frozen=True)
class Launch:
    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]
    """Parameter name -> argument."""
    options: dict[str, int]
    """`num_warps` and the like."""


class Description(NamedTuple):
    """The facts about a launch that the compiled code depends on."""

    signature: dict[str, str]
    """Parameter -> its type, or `constexpr`."""
    constants: dict[tuple[int, ...], Any]
    """Path of a parameter -> its value."""
    attributes: dict[tuple[int, ...], list]
    """Path of a parameter -> known properties of its value."""


@dataclass(frozen=True)
class Compiled:
    """The resources that one kernel uses on one target."""

    registers: int
    """Per thread."""
    spills: int
    """Bytes per thread that did not fit into the registers."""
    shared_bytes: int
    """Bytes of shared memory per program."""
    matrix_instructions: list[str]
    """Kinds of matrix instructions in the PTX: `mma`, `wgmma`, `tcgen05`."""


def record_launches(run: Callable[[], object]) -> list[Launch]:
    """Return the launches that `run` would make, without making them."""
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
    """Describe a launch for the compiler; launches with equal descriptions share a compilation."""
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
    # Triton compiles an argument of value 1 as a constant; many strides are 1.
    if is_constexpr or (isinstance(value, int) and is_special and value == 1):
        return "constexpr"
    if isinstance(value, torch.Tensor):
        return _POINTERS[value.dtype]
    if isinstance(value, float):
        return "fp32"
    return "i32" if -(2**31) <= value < 2**31 else "i64"


def matrix_instructions(ptx: str) -> list[str]:
    found = re.findall(
        r"^\s*(?:@%?!?\w+\s+)?(mma|wgmma|tcgen05)\.(?:\w+\.)*?mma|^\s*(mma)\.sync",
        ptx,
        re.MULTILINE,
    )
    return sorted({first or second for first, second in found})


def _resource_usage(cubin: bytes) -> tuple[int, int]:
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    registers, frame = re.search(r"REG:(\d+) STACK:(\d+)", text).groups()
    return int(registers), int(frame)
