"""Checks of Python and of the installed libraries. Only a library that is found is imported."""

import re
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec

from minivllm.cli.doctor.finding import Finding, advice, bad, ok
from minivllm.errors import TritonMissingError

OLDEST, NEWEST = (3, 11), (3, 13)
_INSTALL = "pip install -c constraints.txt -e '.[kv-events,lessons,serve]'"
_SEPARATE = {"torch", "triton"}
"""Packages that have their own check."""


def check_python(found: tuple[int, ...] = tuple(sys.version_info[:3])) -> Finding:
    text = ".".join(map(str, found))
    if OLDEST <= found[:2] <= NEWEST:
        return ok("Python", text)
    return bad("Python", f"{text}, but minivllm needs 3.11 to 3.13: make PYTHON=python3.12 install")


def check_packages() -> Finding:
    """Check that all required packages are installed."""
    try:
        requirements = [text for text in requires("minivllm") or () if "extra ==" not in text]
    except PackageNotFoundError:
        return bad("packages", f"minivllm itself is not installed: {_INSTALL}")
    names = {re.match(r"[\w.-]+", text)[0] for text in requirements} - _SEPARATE
    if missing := sorted(name for name in names if not _is_installed(name)):
        return bad("packages", f"not installed: {', '.join(missing)}: {_INSTALL}")
    return ok("packages", f"all {len(names)} are installed")


def check_torch() -> Finding:
    """Import torch and compute with it: a damaged library fails only then."""
    if find_spec("torch") is None:
        return bad("torch", f"not installed: {_INSTALL}")
    try:
        torch = import_module("torch")
        total = float((torch.ones(8, 8) @ torch.ones(8, 8)).sum())
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        return bad("torch", f"cannot be used ({_first_line(error)}): remove it and {_INSTALL}")
    if total != 512:
        return bad("torch", f"8 x 8 ones give {total:g} in place of 512: remove it and {_INSTALL}")
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ", no GPU needed"
    return ok("torch", f"{torch.__version__}{gpu}")


def check_triton() -> Finding:
    """Import Triton in the mode that the kernels use: compiled or interpreted."""
    if find_spec("triton") is None:
        missing = TritonMissingError("The kernel x-ray", "lessons 17 and 18 show recordings")
        return advice("Triton", str(missing).rstrip("."))
    if find_spec("torch") is None:
        return advice("Triton", "needs torch: install that first")
    try:
        mode = import_module("minivllm.kernels.mode")
    except (ImportError, OSError, RuntimeError) as error:
        return advice("Triton", f"{_first_line(error)} Lessons 17 and 18 show recordings")
    how = "its interpreter runs kernels here" if mode.INTERPRETED else "compiles for the GPU"
    return ok("Triton", f"{mode.triton.__version__}, {how}")


def check_extras() -> Finding:
    """Check the optional packages for exercises and for the server."""
    extras = {"lessons": ("hypothesis",), "serve": ("starlette", "uvicorn", "prometheus-client")}
    lacking = [
        extra for extra, names in extras.items() if not all(_is_installed(name) for name in names)
    ]
    if lacking:
        what = {"lessons": "exercises", "serve": "the server"}
        return advice(
            "extras",
            f"{' and '.join(what[extra] for extra in lacking)} will not run:"
            f" pip install 'minivllm[{','.join(lacking)}]'",
        )
    return ok("extras", "exercises and the server can run")


def _is_installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
