"""Build the C files of this folder with the machine's own compiler, once, and load the library.

The file name contains a hash of source, flags, compiler and processor, so a changed source or
another machine gets a new file. Building takes a few seconds, loading a millisecond. Several
processes can build at once: each writes its own file and moves it into place. If the build fails,
`CpuKernelsError` gives the reason, and torch is used instead.

Without AVX-512, the kernels run on OpenMP's threads (threads.c) and must share torch's OpenMP
runtime. Otherwise a second runtime would start a second set of threads on the same cores. A library
built by gcc asks for `libgomp.so.1`, which torch has already loaded. clang uses another runtime, so
clang is refused.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path

FLAGS = (
    "-O3",
    "-march=native",
    "-fno-math-errno",
    "-fno-trapping-math",
    # fuse a * b + c only where the source does so (vector.h), the same way in every loop
    "-ffp-contract=off",
    "-fopenmp",
    "-fPIC",
    "-shared",
)
BUILD_SECONDS = 120

_POINTER, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_SIGNATURES = {
    "add_rms_norm": (*[_POINTER] * 4, *[_INT] * 2, _FLOAT, _INT),
    "rotary_and_cache": (*[_POINTER] * 3, *[_INT] * 3, *[_POINTER] * 4, *[_INT] * 6),
    "silu_and_mul": (*[_POINTER] * 2, *[_INT] * 3),
    "rows_of_packed": (*[_POINTER] * 3, *[_INT] * 4),
    "linear": (*[_POINTER] * 4, *[_INT] * 5),
    "linear_bf16": (*[_POINTER] * 4, *[_INT] * 5),
    "run_layers": (
        *[_POINTER] * 2,
        *[_FLOAT] * 2,
        *[_POINTER] * 8,
        _INT,
        *[_POINTER] * 3,
        *[_INT] * 2,
    ),
    "attend": (_POINTER, _INT, *[_POINTER] * 5, _INT, *[_POINTER] * 3, *[_INT] * 5, _FLOAT, _INT),
}


class CpuKernelsError(Exception):
    """The CPU kernels cannot be built or loaded; the message is one sentence with the reason."""


@cache
def load_cpu_library(folder: Path) -> ctypes.CDLL:
    """Load the kernels, building them into `folder` if necessary. Raises `CpuKernelsError`."""
    compiler = _compiler()
    sources = _sources()
    version = _run([*compiler, "--version"]).stdout
    if "clang" in version:
        raise CpuKernelsError(
            f"{compiler[0]} is clang, whose OpenMP library is not the one that torch uses: set CC"
            " to a gcc."
        )
    path = folder / f"cpu_kernels-{_digest(sources, compiler, version)}.so"
    try:
        if not path.is_file():
            _build(sources, compiler, path)
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise CpuKernelsError(
            f"the kernels cannot be stored in {folder} or loaded from it: {error}."
        ) from error
    for name, signature in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = signature, None
    library.linear_is_fast.restype = library.bf16_way.restype = _INT
    return library


def _compiler() -> list[str]:
    """Return the compiler command: CC, which can have arguments (`ccache gcc`), else gcc or cc."""
    try:
        named = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        raise CpuKernelsError(
            f"the environment variable CC is not a valid command ({error})."
        ) from error
    for command in [named] if named else [["gcc"], ["cc"]]:
        if program := shutil.which(command[0]):
            return [program, *command[1:]]
    raise CpuKernelsError("there is no C compiler (the one that CC names, or gcc or cc).")


def _sources() -> dict[str, str]:
    folder = resources.files(__package__)
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith((".c", ".h")))
    return {name: folder.joinpath(name).read_text(encoding="utf-8") for name in names}


def _digest(sources: dict[str, str], compiler: list[str], version: str) -> str:
    parts = (*sources.values(), *FLAGS, *compiler, version, platform.machine(), _processor_flags())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _processor_flags() -> str:
    """Return the processor's instruction sets (for `-march=native`), if the system lists them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _build(sources: dict[str, str], compiler: list[str], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder, "cpu_kernels.so")
        for name, text in sources.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        files = [str(Path(folder, name)) for name in sources if name.endswith(".c")]
        done = _run([*compiler, *FLAGS, *files, "-o", str(built), "-lm"])
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or [
                "it gave no reason"
            ]
            raise CpuKernelsError(f"{compiler[0]} could not build the kernels: {lines[0]}.")
        built.replace(path)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=BUILD_SECONDS
        )
    except OSError as error:
        raise CpuKernelsError(
            f"the C compiler {command[0]} cannot be run: {error.strerror}."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise CpuKernelsError(
            f"{command[0]} took more than {BUILD_SECONDS} seconds to build the kernels."
        ) from error
