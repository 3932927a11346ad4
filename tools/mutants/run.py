"""`make mutants`: makes small faults in core and engine; fast tests must notice each one.

    python tools/mutants/run.py                       every list in this folder
    python tools/mutants/run.py engine                only engine.toml
    python tools/mutants/run.py core --only salt      mutants of core.toml with "salt" in their name
    python tools/mutants/run.py --list-file my.toml   your own list
    python tools/mutants/run.py --matrix kills.json   every test that notices each one, and a cover

A list is a TOML file with `tests` (arguments of the pytest run that should notice), `must_kill` (a
share in percent) and mutants:

    [[mutant]]
    name = "a block that is hit twice has one owner"
    file = "minivllm/core/block_pool.py"
    old = "        block.ref_cnt += 1"        exactly once in the file, with line breaks and spaces
    new = "        block.ref_cnt = 1"
    wrong = "The first of two owners frees the block while the other still reads it."
    equivalent = "why it changes nothing"     only for a mutant without a visible effect
    survives = "why it is not tested"         only for a mutant that tests need not notice; it
                                              counts as not killed

Each worker has a copy of the tree. The exit status is 1 if too few mutants are killed (equivalent
mutants do not count), or if a mutant's outcome contradicts the list. The exit status is 2 if the
list does not fit the source, or if the tests fail without a mutant.
"""

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COPIED = (
    "minivllm", "kernels", "tui", "lessons", "tests", "tools", "docs", "pyproject.toml",
    "README.md", "Makefile",
)  # fmt: skip
PRELOADED = ("hypothesis.stateful", "msgspec", "numpy", "torch", "triton")
"""Modules that the tests import. They are loaded once here, and not in every forked process."""
HYPOTHESIS = ("--hypothesis-seed=0", "--hypothesis-profile=mutants")
LIMIT = 600.0
"""Seconds after which a mutant counts as killed, because it probably loops forever."""


class ListError(Exception):
    """The list does not fit the source."""


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    wrong: str
    equivalent: str = ""
    survives: str = ""

    def applied_to(self, source: str) -> str:
        """Return the source with the fault. Raises `ListError` unless `old` occurs exactly once."""
        count = source.count(self.old)
        if count != 1:
            raise ListError(
                f"{self.name!r}: its `old` occurs {count} times in {self.file} and must occur"
                " once: the source has changed, so correct `old` and `new`, or remove the mutant."
            )
        if self.old == self.new:
            raise ListError(f"{self.name!r}: `old` and `new` are the same.")
        mutated = source.replace(self.old, self.new)
        try:
            compile(mutated, self.file, "exec")
        except SyntaxError as error:
            raise ListError(f"{self.name!r} is not valid Python: {error}.") from error
        return mutated


@dataclass(frozen=True)
class MutantList:
    name: str
    tests: list[str]
    must_kill: float
    mutants: list[Mutant]


@dataclass(frozen=True)
class Outcome:
    """killers: the tests that noticed the mutant; without a matrix, only the first"""

    mutant: Mutant | None
    killers: list[str]
    seconds: float

    @property
    def killed_by(self) -> str | None:
        return self.killers[0] if self.killers else None

    @property
    def is_as_expected(self) -> bool:
        explained = bool(self.mutant.equivalent or self.mutant.survives)
        return (self.killed_by is None) == explained

    def __str__(self) -> str:
        mutant = self.mutant
        if self.killed_by is not None:
            unexpected = "" if self.is_as_expected else "  (listed as a survivor)"
            return f"killed    {mutant.name}  <- {self.killed_by}{unexpected}"
        if mutant.equivalent:
            return f"same      {mutant.name}: {mutant.equivalent}"
        why = mutant.survives or f"NOT EXPLAINED. {mutant.wrong}"
        return f"SURVIVED  {mutant.name} ({mutant.file}): {why}"


def read_list(path: Path, root: Path = ROOT) -> MutantList:
    """Raises `ListError` if a mutant does not fit the source."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        mutants = [Mutant(**entry) for entry in data["mutant"]]
        listed = MutantList(path.stem, data["tests"], float(data["must_kill"]), mutants)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ListError(f"{path}: {error}") from error
    names = [mutant.name for mutant in mutants]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ListError(f"{path}: named twice: {', '.join(sorted(twice))}.")
    for mutant in mutants:
        mutant.applied_to((root / mutant.file).read_text(encoding="utf-8"))
    return listed


class Workshop:
    """A copy of the tree in which one mutant at a time is tested, in a forked process.

    pytest: more arguments for pytest. By default it stops at the first test that fails.
    """

    def __init__(self, folder: Path, pytest: list[str]) -> None:
        self.folder = folder
        self._pytest = pytest
        self._num_writes = 0
        ignore = shutil.ignore_patterns("__pycache__")
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=ignore, symlinks=True)
            elif source.exists():
                shutil.copy2(source, folder / name)

    def start(self, mutant: Mutant | None, tests: list[str]) -> None:
        self.mutant = mutant
        if mutant is not None:
            self._file = self.folder / mutant.file
            self._original = self._file.read_text(encoding="utf-8")
            self._write(mutant.applied_to(self._original))
        self._began = time.monotonic()
        self._log = self.folder / "log"
        sys.stdout.flush()
        self._process = os.fork()
        if self._process == 0:
            self._run_tests(tests)

    def result(self) -> Outcome | None:
        """Return the outcome; None while the tests run."""
        process, status = os.waitpid(self._process, os.WNOHANG)
        seconds = time.monotonic() - self._began
        if process == 0 and seconds < LIMIT:
            return None
        if process == 0:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        if self.mutant is not None:
            self._write(self._original)
        killers = self._killers(process != 0, os.waitstatus_to_exitcode(status))
        return Outcome(self.mutant, killers, seconds)

    def _killers(self, has_ended: bool, status: int) -> list[str]:
        if not has_ended:
            return [f"its time: over {LIMIT:.0f} s"]
        if status == 0:
            return []
        said = self._log.read_text(encoding="utf-8", errors="replace")
        pattern = r"(?m)^(?:FAILED|ERROR) (\S+::\w+(?:\[.*?\](?= - |$))?|\S+)"
        found = re.findall(pattern, said)
        return list(dict.fromkeys(found)) or [f"pytest itself, status {status}: {said[-400:]}"]

    def _run_tests(self, tests: list[str]) -> NoReturn:
        status = 3
        try:
            with self._log.open("wb") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            os.chdir(self.folder)
            sys.path[:0] = [str(self.folder)]
            arguments = [
                *tests, *self._pytest, "-q", "-m", "not slow and not gpu and not browser",
                "--tb=no", "--no-header", "-rfE", "-p", "no:cacheprovider", *HYPOTHESIS,
            ]  # fmt: skip
            status = int(pytest.main(arguments))
        finally:
            sys.stdout.flush()
            os._exit(status)

    def _write(self, source: str) -> None:
        """Write the file with a unique time, so that Python does not reuse old compiled code."""
        self._file.write_text(source, encoding="utf-8")
        self._num_writes += 1
        os.utime(self._file, (1_000_000_000 + self._num_writes, 1_000_000_000 + self._num_writes))


def run(listed: MutantList, num_workers: int, pytest: list[str]) -> Iterator[Outcome]:
    """Test all mutants of a list. Raises `ListError` if the tests fail without a mutant."""
    with tempfile.TemporaryDirectory(prefix="minivllm-mutants-") as scratch:
        workshops = [Workshop(Path(scratch) / str(i), pytest) for i in range(num_workers)]
        workshops[0].start(None, listed.tests)
        while (sound := workshops[0].result()) is None:
            time.sleep(0.02)
        if sound.killed_by is not None:
            raise ListError(
                f"The tests of {listed.name!r} fail without any mutant: {sound.killed_by}."
            )
        to_come, busy = listed.mutants[::-1], []
        while to_come or busy:
            while to_come and len(busy) < num_workers:
                busy.append(next(workshop for workshop in workshops if workshop not in busy))
                busy[-1].start(to_come.pop(), listed.tests)
            for workshop in list(busy):
                if (outcome := workshop.result()) is not None:
                    busy.remove(workshop)
                    yield outcome
            time.sleep(0.02)


def passes(outcomes: list[Outcome], must_kill: float) -> bool:
    """Print a list's result; return whether enough mutants died and outcomes are as listed."""
    real = [outcome for outcome in outcomes if not outcome.mutant.equivalent]
    num_killed = sum(outcome.killed_by is not None for outcome in real)
    percent = 100 * num_killed / len(real) if real else 100.0
    num_same = len(outcomes) - len(real)
    print(
        f"{num_killed} of {len(real)} killed: {percent:.1f} %, and {num_same} equivalent"
        f" (required: {must_kill:g} %)"
    )
    wrong = [outcome.mutant.name for outcome in outcomes if not outcome.is_as_expected]
    if wrong:
        print(
            f"Different from the list: {'; '.join(wrong)}. Write a test that fails, or explain in"
            " the list why there is none."
        )
    return percent >= must_kill and not wrong


def cover(kills: dict[str, list[str]]) -> dict[str, list[str]]:
    """Few tests that notice every mutant: greedily, the test that notices most of the rest.

    kills: mutant -> the tests that notice it. Returns test -> the mutants that it adds.
    """
    left, chosen = {mutant: set(tests) for mutant, tests in kills.items() if tests}, {}
    while left:
        counts = Counter(test for tests in left.values() for test in tests)
        best = min(counts, key=lambda test: (-counts[test], test))
        chosen[best] = [mutant for mutant, tests in left.items() if best in tests]
        left = {mutant: tests for mutant, tests in left.items() if best not in tests}
    return chosen


def print_matrix(kills: dict[str, list[str]]) -> None:
    alone = {mutant: tests[0] for mutant, tests in kills.items() if len(tests) == 1}
    chosen = cover(kills)
    print(f"{len(chosen)} tests notice all {sum(map(bool, kills.values()))} mutants:")
    for test, mutants in chosen.items():
        only = sum(alone.get(mutant) == test for mutant in mutants)
        print(f"{len(mutants):4} more, {only:3} that no other test notices  {test}")


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Make many small faults in the code, one at a time; check that the fast tests"
        " fail."
    )
    parser.add_argument(
        "lists", nargs="*", help="names of the lists next to this file (default: all)"
    )
    parser.add_argument("--list-file", type=Path, help="your own list instead")
    parser.add_argument(
        "--only", default="", help="only mutants with this text in their name or file"
    )
    parser.add_argument(
        "--workers", type=int, default=2, help="number of mutants tried in parallel"
    )
    matrix = "run all tests of a list on each mutant, write who noticed what, print a small cover"
    parser.add_argument("--matrix", type=Path, metavar="FILE", help=matrix)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = read_options(arguments)
    # A test that loops forever fails after a minute, and must not hide those after it.
    pytest_arguments = ["--timeout=60", *([] if options.matrix else ["-x"])]
    paths = [HERE / f"{name}.toml" for name in options.lists] or sorted(HERE.glob("*.toml"))
    if options.list_file:
        paths = [options.list_file]
    all_pass, kills = True, {}
    # Triton and `support.patience` read their variables when they are imported.
    os.environ |= {"OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "1", "MINIVLLM_SOON": "20"}
    for name in PRELOADED:
        with suppress(ModuleNotFoundError):
            import_module(name)
    try:
        lists = [read_list(path) for path in paths]
        for listed in lists:
            chosen = [
                mutant
                for mutant in listed.mutants
                if options.only in mutant.name or options.only in mutant.file
            ]
            print(
                f"{listed.name}: {len(chosen)} mutants against {' '.join(listed.tests)}", flush=True
            )
            outcomes, tried = [], replace(listed, mutants=chosen)
            for outcome in run(tried, options.workers, pytest_arguments):
                print(f"{outcome}  ({outcome.seconds:.0f} s)", flush=True)
                outcomes.append(outcome)
            all_pass &= passes(outcomes, listed.must_kill)
            kills |= {outcome.mutant.name: outcome.killers for outcome in outcomes}
    except ListError as error:
        print(error, file=sys.stderr)
        return 2
    if options.matrix:
        options.matrix.write_text(json.dumps(kills, indent=1), encoding="utf-8")
        print_matrix(kills)
    return 0 if all_pass else 1


if __name__ == "__main__":
    sys.exit(main())
