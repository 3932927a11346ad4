"""Build the C files of this folder with any C compiler, once, and load the library.

The file name contains a hash of source, flags, compiler and processor, so a changed source or
another machine gets a new file. Building takes a few seconds, loading a millisecond. Several
processes can build at once: each writes its own file and moves it into place. If the build fails,
`CpuKernelsError` gives the reason, and torch is used instead.

The compiler is the one that CC names, else gcc, cc or clang, else Zig's (`pip install ziglang`),
which brings its own headers and needs nothing of the system.
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
from importlib.util import find_spec
from pathlib import Path

FLAGS = (
    "-O3",
    # clang knows only one of the two names on each architecture
    "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native",
    "-fno-math-errno",
    "-fno-trapping-math",
    # fuse a * b + c only where the source does so (vector.h), the same way in every loop
    "-ffp-contract=off",
    "-pthread",
    "-fPIC",
    "-shared",
)
BUILD_SECONDS = 300

_POINTER, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_SIGNATURES = {
    "add_rms_norm": (*[_POINTER] * 4, *[_INT] * 2, _FLOAT, _INT),
    "rotary_and_cache": (*[_POINTER] * 3, *[_INT] * 3, *[_POINTER] * 4, *[_INT] * 6),
    "silu_and_mul": (_POINTER, _INT, _POINTER, *[_INT] * 4),
    "rows_of_packed": (*[_POINTER] * 3, *[_INT] * 4),
    "linear": (*[_POINTER] * 4, *[_INT] * 6),
    "fused_topk": (*[_POINTER] * 4, *[_INT] * 6),
    "fused_experts": (*[_POINTER] * 7, *[_INT] * 5),
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
    compiler, sources = _compiler(), _sources()
    version = _version_of(tuple(compiler))
    if version is None:
        raise CpuKernelsError(f"{compiler[0]} is not a C compiler that works.")
    path = folder / f"cpu_kernels-{_digest(sources, compiler, version)}.so"
    try:
        library = _load_or_build(path, sources, compiler)
    except OSError as error:
        raise CpuKernelsError(
            f"the kernels cannot be stored in {folder} or loaded from it: {error}."
        ) from error
    for name, signature in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = signature, None
    library.bf16_way.restype = _INT
    library.instructions.restype = library.compiler.restype = ctypes.c_char_p
    return library


def _load_or_build(path: Path, sources: dict[str, str], compiler: list[str]) -> ctypes.CDLL:
    """Load the library, or build it if it is missing or damaged."""
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        _build(sources, compiler, path)
        return ctypes.CDLL(str(path))


def _compiler() -> list[str]:
    """Return the compiler's command; CC's can have arguments (`ccache gcc`)."""
    try:
        named = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        raise CpuKernelsError(
            f"the environment variable CC is not a valid command ({error})."
        ) from error
    if named:
        if (program := shutil.which(named[0])) is None:
            raise CpuKernelsError(f"there is no program {named[0]}, which CC names.")
        return [program, *named[1:]]
    for name in ("gcc", "cc", "clang"):
        # A Mac has these names without a compiler, too.
        if (program := shutil.which(name)) is not None and _version_of((program,)) is not None:
            return [program]
    if (zig := find_spec("ziglang")) is not None:
        return [str(Path(zig.origin).with_name("zig")), "cc"]
    raise CpuKernelsError(
        "there is no C compiler: install gcc or clang, or Zig's (pip install 'minivllm[compiler]',"
        " 101 MB to download, 411 MB on disk)."
    )


@cache
def _version_of(command: tuple[str, ...]) -> str | None:
    done = _run([*command, "--version"])
    return None if done.returncode else done.stdout


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
        if done.returncode or not built.is_file():
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
