"""`minivllm doctor`: checks this machine in less than a minute and prints a line for each check.

The exit status is 0 if the course works on this machine, else 1. A library can be missing or damaged,
so each check imports what it examines, with `import_module` or as a lazy name of a room.
"""

import argparse
import os
import re
import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from platform import python_version
from typing import Literal, NamedTuple

from minivllm import kernels, lessons, runtime
from minivllm.cli.terminal import has_utf8
from minivllm.errors import MinivllmError, TritonMissingError
from minivllm.runtime.paths import default_cache_root
from minivllm.runtime.progress import format_bytes
from minivllm.runtime.store.provenance import HOUSE_FOLDER, provenance_of
from minivllm.text import plural

ENOUGH_MEMORY = 1_000_000_000, 3_000_000_000
"""For torch with the house model, and for the chat model in float32 with 1 GB of KV cache."""
ENOUGH_DISK = 50_000_000, 1_000_000_000
"""For built kernels and recordings, and for the chat model while it is converted."""
COLUMNS, ROWS = 120, 36
"""The size that the dashboard is designed for (docs/start/index.md)."""
_INSTALL = "pip install -c constraints.txt -e '.[lessons,serve]'"


class Finding(NamedTuple):
    state: Literal["ok", "note", "bad"]
    """`note`: the course works, with limits; `bad`: it does not work."""
    text: str
    """What was found, and for `note` and `bad` also what to do."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command has no options."""


def run(args: argparse.Namespace) -> int:
    colours = {"ok": "\x1b[32m", "note": "\x1b[33m", "bad": "\x1b[31m"}
    coloured, num_bad = sys.stdout.isatty() and "NO_COLOR" not in os.environ, 0
    for name, check in CHECKS.items():
        state, text = _finding_of(check)
        line = f"{state:<4}  {name:<11}  {text}"
        print(f"{colours[state]}{line}\x1b[0m" if coloured else line, flush=True)
        num_bad += state == "bad"
    if num_bad:
        print(f"\nMend {plural(num_bad, 'thing')} first (bad), then run minivllm doctor again.")
        return 1
    print("\nThe course can be done on this machine. Start with: minivllm lesson")
    return 0


def _finding_of(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except ModuleNotFoundError as error:
        return Finding("bad", f"needs the package {error.name}: install it first")
    except (MinivllmError, OSError) as error:
        return Finding("bad", str(error).rstrip("."))
    except Exception as error:  # run the other checks
        return Finding("bad", f"the check failed ({type(error).__name__}: {error}): report this")


def check_packages() -> Finding:
    """What is required, and what the server needs; torch and Triton come below."""
    try:
        requirements = [text for text in requires("minivllm") or () if "extra ==" not in text]
    except PackageNotFoundError:
        return Finding("bad", f"minivllm itself is not installed: {_INSTALL}")
    names = {re.match(r"[\w.-]+", text)[0] for text in requirements} - {"torch", "triton"}
    if missing := sorted(name for name in names if not _is_installed(name)):
        return Finding("bad", f"not installed: {', '.join(missing)}: {_INSTALL}")
    if not all(map(_is_installed, ("starlette", "uvicorn", "prometheus-client"))):
        return Finding("note", "the server will not run: pip install 'minivllm[serve]'")
    return Finding("ok", f"all {len(names)}, and those of the server")


def check_torch() -> Finding:
    """Import torch and compute with it: a damaged library fails only then."""
    try:
        torch = import_module("torch")
        total = float((torch.ones(8, 8) @ torch.ones(8, 8)).sum())
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        return Finding("bad", f"cannot be used ({_first_line(error)}): remove it and {_INSTALL}")
    if total != 512:
        return Finding("bad", f"8 x 8 ones give {total:g} in place of 512: {_INSTALL}")
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ", no GPU needed"
    return Finding("ok", f"{torch.__version__}{gpu}")


def check_triton() -> Finding:
    """Import Triton in the mode that the kernels use: compiled or interpreted."""
    if find_spec("triton") is None:
        missing = TritonMissingError("The kernel x-ray", "lessons 17 and 18 show recordings")
        return Finding("note", str(missing).rstrip("."))
    import_module("torch")
    try:
        interpreted, triton = kernels.INTERPRETED, kernels.triton
    except (ImportError, OSError, RuntimeError) as error:
        return Finding("note", f"{_first_line(error)} Lessons 17 and 18 show recordings")
    how = "its interpreter runs kernels here" if interpreted else "compiles for the GPU"
    return Finding("ok", f"{triton.__version__}, {how}")


def check_kernels() -> Finding:
    """Build the C kernels if needed, and run one of them."""
    torch = import_module("torch")
    if missing := runtime.why_no_kernels():
        return Finding("note", missing)
    ops, x = runtime.load_cpu_ops(), torch.linspace(-2, 2, 64).reshape(2, 32)
    expected = torch.nn.functional.silu(x[:, :16]) * x[:, 16:]
    if not torch.allclose(ops.silu_and_mul(x), expected, atol=1e-5):
        return Finding("bad", "the C kernels compute wrong numbers: remove the built library")
    return Finding("ok", f"{ops.description}; bfloat16 runs on {ops.bf16_way}")


def check_exercises() -> Finding:
    """The engine's own solution of an exercise must pass in a child process."""
    import_module("numpy")
    exercise = lessons.find_exercise("lru")
    with lessons.Worker(exercise) as worker:
        failure = worker.ask(str(exercise.source_file)).failure
    if failure is not None:
        return Finding("bad", f"exercises cannot run: {failure.text}")
    return Finding("ok", "exercises run, with limits on time and memory")


def check_terminal() -> Finding:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        without = "none here, so no dashboard: lesson --plain and demo --headless work"
        return Finding("note", without)
    size = shutil.get_terminal_size()
    found = f"{size.columns} columns and {size.lines} rows"
    if size.columns < COLUMNS or size.lines < ROWS:
        found += f", but the dashboard is made for {COLUMNS} and {ROWS}"
        return Finding("note", f"{found}: enlarge the window or shrink the font")
    if not has_utf8():
        return Finding("note", f"{found}, no UTF-8: the dashboard uses ASCII; set LANG=C.UTF-8")
    return Finding("ok", found)


def check_house_model() -> Finding:
    runtime.check_checkpoint(HOUSE_FOLDER)
    return Finding("ok", str(provenance_of(HOUSE_FOLDER)))


def check_chat_model() -> Finding:
    """Look for the chat model in the caches; the doctor downloads nothing."""
    found = runtime.ModelStore().smollm2_if_here()
    if found is None:
        return Finding("note", "not downloaded: minivllm model fetch smollm2")
    return Finding("ok", f"smollm2, {provenance_of(found)}")


def check_memory() -> Finding:
    free = runtime.available_cpu_memory()
    if free is None:
        return Finding("ok", "this system does not say how much is available")
    return _compare(free, *ENOUGH_MEMORY, f"{format_bytes(free)} available", "close programs")


def check_disk() -> Finding:
    cache = default_cache_root()
    there = next(folder for folder in (cache, *cache.parents) if folder.is_dir())
    if not os.access(there, os.W_OK):
        return Finding("note", f"{cache} is read-only: set MINIVLLM_CACHE to a folder that is not")
    free = shutil.disk_usage(there).free
    elsewhere = "free some, or set MINIVLLM_CACHE to a folder on a larger disk"
    return _compare(free, *ENOUGH_DISK, f"{format_bytes(free)} free in {cache}", elsewhere)


def _compare(free: int, least: int, good: int, found: str, remedy: str) -> Finding:
    if free < least:
        return Finding("bad", f"{found}, but {format_bytes(least)} are needed: {remedy}")
    if free < good:
        return Finding("note", f"{found}, too little for the chat model: {remedy}")
    return Finding("ok", found)


def _is_installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


CHECKS: dict[str, Callable[[], Finding]] = {
    "Python": lambda: Finding("ok", python_version()),  # pip installs only where it can run
    "packages": check_packages,
    "torch": check_torch,
    "Triton": check_triton,
    "kernels": check_kernels,
    "exercises": check_exercises,
    "terminal": check_terminal,
    "house model": check_house_model,
    "chat model": check_chat_model,
    "memory": check_memory,
    "disk": check_disk,
}
