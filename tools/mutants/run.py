"""`make mutants`: break the code a little, many times over, and see whether the fast tests notice each time.

    python tools/mutants/run.py                       every list beside this file
    python tools/mutants/run.py core --only salt      those of core.toml with "salt" in their name
    python tools/mutants/run.py --list-file my.toml   a list of your own

A list is a TOML file: `tests`, the arguments of pytest that are to notice; `must_kill`, the share in percent; and mutants:

    [[mutant]]
    name = "a block that is hit twice has one owner"
    file = "minivllm/core/block_pool.py"
    old = "        block.ref_cnt += 1"        exactly once in the file, line breaks and spaces included
    new = "        block.ref_cnt = 1"
    wrong = "The first of two owners frees the block while the other still reads it."
    equivalent = "why no test can tell"       only for those that change nothing that can be seen
    survives = "why it is not tested"         only for those that are let live, which counts against the share

Each worker has a copy of the tree in a scratch folder; your files are not touched. The exit status is 1 if fewer are killed
than `must_kill` percent of those that are not equivalent, if one lives that the list does not explain, or if one that it explains is
killed. It is 2 if the list no longer fits the source or the tests fail without any mutant.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COPIED = ("minivllm", "kernels", "tui", "lessons", "tests", "tools", "docs", "pyproject.toml", "README.md", "Makefile")
MOUNTED = ("kernels", "tui", "lessons")
"""Folders that are installed inside the package: a link there, or those of the installed tree would be imported."""
LIMIT = 300.0
"""Seconds after which a mutant is killed by its slowness: it loops for ever."""


class ListError(Exception):
    """The list and the source do not fit together."""


@dataclass(frozen=True)
class Mutant:
    """One fault."""

    name: str
    file: str
    old: str
    new: str
    wrong: str
    equivalent: str = ""
    survives: str = ""

    def applied_to(self, source: str) -> str:
        """The source with the fault in it. Raises `ListError` if there is not exactly one place for it."""
        count = source.count(self.old)
        if count != 1:
            raise ListError(
                f"{self.name!r}: its `old` is in {self.file} {count} times and must be there once: the source has changed, "
                f"so write `old` and `new` anew, or take the mutant out."
            )
        if self.old == self.new:
            raise ListError(f"{self.name!r}: `old` and `new` are the same.")
        mutated = source.replace(self.old, self.new)
        try:
            compile(mutated, self.file, "exec")
        except SyntaxError as error:
            raise ListError(f"{self.name!r} is no Python: {error}.") from error
        return mutated


@dataclass(frozen=True)
class MutantList:
    """What one TOML file says."""

    name: str
    tests: list[str]
    must_kill: float
    mutants: list[Mutant]


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant: the test that noticed it, or none."""

    mutant: Mutant
    killed_by: str | None
    seconds: float

    @property
    def is_as_expected(self) -> bool:
        explained = bool(self.mutant.equivalent or self.mutant.survives)
        return (self.killed_by is None) == explained

    def __str__(self) -> str:
        mutant = self.mutant
        if self.killed_by is not None:
            unexpected = "" if self.is_as_expected else "  (the list says that it lives)"
            return f"killed    {mutant.name}  <- {self.killed_by}{unexpected}"
        if mutant.equivalent:
            return f"same      {mutant.name}: {mutant.equivalent}"
        why = mutant.survives or f"NOT EXPLAINED. {mutant.wrong}"
        return f"SURVIVED  {mutant.name} ({mutant.file}): {why}"


def read_list(path: Path, root: Path = ROOT) -> MutantList:
    """The list in `path`, each mutant checked against the source in `root`. Raises `ListError`."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        mutants = [Mutant(**one) for one in data["mutant"]]
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
    """A copy of the tree in which one mutant at a time is tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._num_writes = 0
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(
                    source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.svg"), symlinks=True
                )
            elif source.exists():
                shutil.copy2(source, folder / name)
        for name in MOUNTED:
            if not (folder / "minivllm" / name).exists():
                (folder / "minivllm" / name).symlink_to(Path("..") / name)

    def try_out(self, mutant: Mutant, tests: list[str]) -> Outcome:
        file = self.folder / mutant.file
        original = file.read_text(encoding="utf-8")
        began = time.monotonic()
        try:
            self._write(file, mutant.applied_to(original))
            return Outcome(mutant, self.first_failure(tests), time.monotonic() - began)
        finally:
            self._write(file, original)

    def first_failure(self, tests: list[str]) -> str | None:
        """The first test that fails; None if all pass."""
        command = [sys.executable, "-m", "pytest", *tests, "-x", "-q", "-m", "not slow and not gpu and not browser"]
        command += ["-p", "no:cacheprovider", "--tb=no", "--no-header", "-rfE", "--hypothesis-seed=0"]
        environment = os.environ | {"PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"}
        try:
            ran = subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            return f"its time: over {LIMIT:.0f} s"
        if ran.returncode == 0:
            return None
        found = re.search(r"^(?:FAILED|ERROR) (\S+(?: \S+)*?)(?: - .*)?$", ran.stdout, re.MULTILINE)
        return found[1] if found else f"pytest itself, status {ran.returncode}: {(ran.stdout + ran.stderr)[-400:]}"

    def _write(self, file: Path, source: str) -> None:
        """Write `file`, with a time of its own: compiled code of a mutant must not be taken for the next one's."""
        file.write_text(source, encoding="utf-8")
        self._num_writes += 1
        os.utime(file, (1_000_000_000 + self._num_writes, 1_000_000_000 + self._num_writes))


def run(listed: MutantList, num_workers: int) -> Iterator[Outcome]:
    """Try all mutants of a list; the outcomes in the list's order. Raises `ListError` if the tests fail without any."""
    with tempfile.TemporaryDirectory(prefix="minivllm-mutants-") as scratch:
        idle: SimpleQueue[Workshop] = SimpleQueue()
        for number in range(num_workers):
            idle.put(Workshop(Path(scratch) / str(number)))

        def try_out(mutant: Mutant) -> Outcome:
            workshop = idle.get()
            try:
                return workshop.try_out(mutant, listed.tests)
            finally:
                idle.put(workshop)

        workshop = idle.get()
        if failure := workshop.first_failure(listed.tests):
            raise ListError(f"The tests of {listed.name!r} fail without any mutant: {failure}.")
        idle.put(workshop)
        with ThreadPoolExecutor(num_workers) as pool:
            yield from pool.map(try_out, listed.mutants)


def passes(outcomes: list[Outcome], must_kill: float) -> bool:
    """Print the sum of a list; whether enough are killed and the list explains every one that is not."""
    real = [outcome for outcome in outcomes if not outcome.mutant.equivalent]
    num_killed = sum(outcome.killed_by is not None for outcome in real)
    percent = 100 * num_killed / len(real) if real else 100.0
    num_same = len(outcomes) - len(real)
    print(
        f"{num_killed} of {len(real)} killed: {percent:.1f} %, and {num_same} that change nothing (at least {must_kill:g} %)"
    )
    wrong = [outcome.mutant.name for outcome in outcomes if not outcome.is_as_expected]
    if wrong:
        print(
            f"Not as the list says: {'; '.join(wrong)}. Write a test that notices, or say in the list why there is none."
        )
    return percent >= must_kill and not wrong


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Break the code a little, many times over: do the fast tests notice?")
    parser.add_argument("lists", nargs="*", help="names of the lists beside this file; all if none is given")
    parser.add_argument("--list-file", type=Path, help="a list of your own, instead")
    parser.add_argument("--only", default="", help="only mutants with this in their name or file")
    parser.add_argument("--workers", type=int, default=2, help="how many are tried at once")
    options = parser.parse_args(arguments)
    paths = [HERE / f"{name}.toml" for name in options.lists] or sorted(HERE.glob("*.toml"))
    if options.list_file:
        paths = [options.list_file]
    all_pass = True
    try:
        lists = [read_list(path) for path in paths]
        for listed in lists:
            chosen = [one for one in listed.mutants if options.only in one.name or options.only in one.file]
            print(f"{listed.name}: {len(chosen)} mutants against {' '.join(listed.tests)}", flush=True)
            outcomes = []
            for outcome in run(MutantList(listed.name, listed.tests, listed.must_kill, chosen), options.workers):
                print(f"{outcome}  ({outcome.seconds:.0f} s)", flush=True)
                outcomes.append(outcome)
            all_pass &= passes(outcomes, listed.must_kill)
    except ListError as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if all_pass else 1


if __name__ == "__main__":
    sys.exit(main())
