"""For every exercise: the engine passes, the stub fails, and so do the known mistakes.

In this process and with few cases: a file's functions and classes take the places of the engine's.
tests/more/exercises has the child process of real checks, all cases and the hints.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from minivllm.lessons.checker.cases.behaviour import Behaviour
from minivllm.lessons.checker.catalogue import Exercise, exercises
from minivllm.lessons.checker.child.student import run_visible_tests
from minivllm.lessons.checker.dev_check import MIN_MISTAKES
from minivllm.lessons.checker.holes import stub
from minivllm.lessons.checker.search import cases_of

NUM_CASES = 10
NOT_CHEAP = ("own-policy", "triton-warmup", "paged-attention-triton")
"""Long traffic, and kernels in Triton's interpreter."""


@contextmanager
def plugged_in(exercise: Exercise, file: Path) -> Iterator[None]:
    """What `file` defines takes the place of the engine's, wherever that was imported."""
    engine, spec = import_module(exercise.module), spec_from_file_location("plugged_in", file)
    own = sys.modules["plugged_in"] = module_from_spec(spec)
    spec.loader.exec_module(own)
    new = {
        id(vars(engine)[name]): value
        for name, value in vars(own).items()
        if name in vars(engine) and getattr(value, "__module__", "") == "plugged_in"
    }
    modules = [module for name, module in sys.modules.items() if name.startswith("minivllm")]
    found = [(module, *item) for module in modules for item in vars(module).items()]
    found = [place for place in found if id(place[2]) in new]
    for module, name, value in found:
        setattr(module, name, new[id(value)])
    try:
        yield
    finally:
        for module, name, value in found:
            setattr(module, name, value)
        del sys.modules["plugged_in"]


def first_failure(behaviour: Behaviour) -> str | None:
    """The first case with other lines than the engine's, and the line.

    `cases_of` keeps the engine's lines, so the engine must be asked first.
    """
    for number, (case, expected) in enumerate(cases_of(behaviour, 0)):
        lines = []
        try:
            lines += behaviour.observe(case)
        except Exception as error:
            lines.append(f"{type(error).__name__}: {error}")
        index = behaviour.first_difference(expected, lines)
        if index is not None:
            return f"{behaviour.key}, case {number}: {lines[index : index + 1]}"
    return None


@pytest.mark.parametrize(
    "exercise",
    [known for known in exercises() if not known.finds_bug and known.name not in NOT_CHEAP],
    ids=lambda exercise: exercise.name,
)
def test_the_engine_passes_and_the_stub_and_known_mistakes_fail(exercise, tmp_path, monkeypatch):
    behaviours = [
        part._replace(examples=min(part.examples, NUM_CASES)) for part in exercise.behaviours()[:-1]
    ]
    assert [first_failure(behaviour) for behaviour in behaviours] == [None] * len(behaviours)
    file = tmp_path / exercise.student_file
    # The visible tests import a module of this name.
    monkeypatch.setitem(sys.modules, file.stem, import_module(exercise.module))
    results = list(run_visible_tests(exercise.folder / "visible_test.py"))
    assert results and all(result.endswith(": passed") for result in results)

    file.write_text(stub(exercise), encoding="utf-8")
    with plugged_in(exercise, file):
        assert all("TODO" in (first_failure(behaviour) or "") for behaviour in behaviours)

    ways = []
    for mistake in exercise.mistakes:
        file.write_text(mistake.source(exercise.source), encoding="utf-8")
        with plugged_in(exercise, file):
            ways.append([first_failure(behaviour) for behaviour in behaviours])
    known = exercise.mistakes
    passed = [mistake.name for mistake, way in zip(known, ways, strict=True) if not any(way)]
    assert len(passed) <= 2, f"{passed}: only rare faults need more cases"
    assert all(mistake.believes for mistake in known)
    assert len({mistake.hint for mistake in known}) == len(known) >= MIN_MISTAKES
    assert len(set(map(str, ways))) >= MIN_MISTAKES, "different mistakes fail in different ways"
