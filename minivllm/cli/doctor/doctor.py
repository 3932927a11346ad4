"""`minivllm doctor`: checks this machine in less than a minute and prints a line for each check.

The exit status is 0 if the course works on this machine, else 1.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable

from minivllm.cli.doctor.finding import Finding, bad
from minivllm.cli.doctor.libraries import (
    check_extras,
    check_packages,
    check_python,
    check_torch,
    check_triton,
)
from minivllm.cli.doctor.machine import check_compiler, check_disk, check_memory
from minivllm.cli.doctor.models import check_chat_model, check_house_model
from minivllm.cli.doctor.sandbox import check_sandbox
from minivllm.cli.doctor.screen import check_colours, check_terminal

CHECKS: tuple[tuple[str, Callable[[], Finding]], ...] = (
    ("Python", check_python),
    ("packages", check_packages),
    ("torch", check_torch),
    ("Triton", check_triton),
    ("extras", check_extras),
    ("compiler", check_compiler),
    ("sandbox", check_sandbox),
    ("terminal", check_terminal),
    ("colours", check_colours),
    ("house model", check_house_model),
    ("chat model", check_chat_model),
    ("memory", check_memory),
    ("disk", check_disk),
)
_GREEN, _YELLOW, _RED = "\x1b[32m", "\x1b[33m", "\x1b[31m"
_COLOURS = {"ok": _GREEN, "note": _YELLOW, "bad": _RED}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command has no options."""


def run(args: argparse.Namespace) -> int:
    findings = []
    for finding in examine(CHECKS):
        print(line_of(finding, coloured=_wants_colours()), flush=True)
        findings.append(finding)
    num_bad = sum(finding.state == "bad" for finding in findings)
    if num_bad:
        things = "1 thing" if num_bad == 1 else f"{num_bad} things"
        print(f"\nMend {things} first (bad), then run minivllm doctor again.")
        return 1
    print("\nThe course can be done on this machine. Start with: minivllm lesson")
    return 0


def examine(checks: Iterable[tuple[str, Callable[[], Finding]]]) -> Iterable[Finding]:
    """Run each check. If a check raises, that is its finding."""
    for name, check in checks:
        try:
            yield check()
        except Exception as error:  # run the other checks
            yield bad(name, f"the check failed ({type(error).__name__}: {error}): report this")


def line_of(finding: Finding, coloured: bool) -> str:
    line = f"{finding.state:<4}  {finding.name:<11}  {finding.text}"
    return f"{_COLOURS[finding.state]}{line}\x1b[0m" if coloured else line


def _wants_colours() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ
