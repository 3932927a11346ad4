"""A student's module in the engine's place: loaded under the engine's own name, before anything
else imports it.

So the whole engine, its invariants and the dashboard run on it, as in the adapters of Stanford's
CS336. A module of `wrong/` is shorter: it defines only the classes or functions that it does wrong,
and those replace the engine's.

The easy thing to get wrong is the order: `from minivllm.core.block_pool import BlockPool` copies a
name. Whoever imports the engine before the student's module is plugged in runs on the engine's own,
and every check passes.
"""

import ast
import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise


def plug_in(module_name: str, file: Path) -> ModuleType:
    """Let `file` be the engine's module of that name from now on. What the file raises, this
    raises.
    """
    _raise_if_too_late(module_name)
    module = _load(module_name, file)
    parent, _, name = module_name.rpartition(".")
    setattr(import_module(parent), name, module)
    return module


def overlay(module_name: str, file: Path) -> ModuleType:
    """Let what `file` defines replace what the engine's module has under the same names."""
    _raise_if_too_late(module_name)
    changed = _load(f"overlay_{file.stem}", file)
    engine = import_module(module_name)
    for name, value in vars(changed).items():
        # what both import is the same object
        if not name.startswith("__") and hasattr(engine, name):
            setattr(engine, name, value)
    return engine


def _raise_if_too_late(module_name: str) -> None:
    if module_name in sys.modules:
        raise ExerciseError(
            f"{module_name} is in use already: a student's module needs a fresh process."
        )


def _load(name: str, file: Path) -> ModuleType:
    spec = spec_from_file_location(name, file)
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def where_in(file: Path, error: BaseException) -> str:
    """The last line of the student's file that an error came through, for the middle of a sentence;
    empty if there is none.
    """
    if isinstance(error, SyntaxError):
        return f" in line {error.lineno}"
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == str(file)]
    return f" in line {frames[-1].lineno}, in {frames[-1].name}" if frames else ""


def imports_of(exercise: Exercise) -> list[str]:
    """The modules that the exercise's module imports at its top. They do not import it in turn."""
    tree = ast.parse(exercise.source_file.read_text(encoding="utf-8"))
    names = [
        alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names
    ]
    return names + [
        node.module for node in tree.body if isinstance(node, ast.ImportFrom) and node.module
    ]


# ---- what a student's module must leave alone ----


def intrusions(own: ModuleType, file: Path) -> list[str]:
    """Names in minivllm's other modules that hold functions of the student's file: patched, by
    whatever means.
    """
    found = []
    for owner, name, value in _functions(own):
        if value.__code__.co_filename == str(file) and getattr(own, name, None) is not value:
            found.append(f"{owner}.{name}")
    return found


def fingerprint(own: ModuleType) -> dict[str, int]:
    """Which function stands where in minivllm's other modules, to be compared later."""
    return {f"{owner}.{name}": id(value) for owner, name, value in _functions(own)}


def _functions(own: ModuleType) -> Iterator[tuple[str, str, FunctionType]]:
    """(owner, name, function) of all modules of minivllm but the student's, and of their
    classes.
    """
    for module in [
        module for name, module in sys.modules.items() if name.partition(".")[0] == "minivllm"
    ]:
        if module is own or module is None:
            continue
        for name, value in list(vars(module).items()):
            if isinstance(value, FunctionType):
                yield module.__name__, name, value
            elif isinstance(value, type) and value.__module__ == module.__name__:
                for attribute, inner in list(vars(value).items()):
                    if isinstance(inner, FunctionType):
                        yield f"{module.__name__}.{name}", attribute, inner
