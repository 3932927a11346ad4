"""`core_methods`: the methods of the core that a reader can change, with their source.

A reader edits one method. It is put back into the text of its whole module, because a method may
need what stands around it: `super()`, constants, other classes.
"""

import ast
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent, indent
from typing import NamedTuple

from minivllm.lessons.checker.holes import first_line, functions_in

MODULES = (
    "minivllm.core.admission",
    "minivllm.core.scheduler",
    "minivllm.core.kv_cache_manager",
    "minivllm.core.block_pool",
)
"""The modules that decide who runs and which block is taken."""


class EditError(ValueError):
    """A reader's code cannot take the method's place. The message says what to change."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line  # in the editor, from 1; None if no line is at fault


class CoreMethod(NamedTuple):
    module: str
    name: str  # such as `Scheduler._preempt`
    first: int  # line in its file, from 1, including decorators; `end` is the last
    end: int
    source: str  # without the indentation of the class


def core_methods() -> list[CoreMethod]:
    """All methods of `MODULES`, in the order of the source."""
    found = []
    for module in MODULES:
        source = _source(module)
        lines = source.splitlines()
        for name, node in functions_in(source).items():
            abstract = [getattr(tag, "id", "") for tag in node.decorator_list] == ["abstractmethod"]
            if "." in name and not abstract:
                first = first_line(node)
                text = dedent("\n".join(lines[first - 1 : node.end_lineno])) + "\n"
                found.append(CoreMethod(module, name, first, node.end_lineno, text))
    return found


def find_method(module: str, name: str) -> CoreMethod:
    """Raises `EditError` if the core has no such method."""
    for method in core_methods():
        if method[:2] == (module, name):
            return method
    raise EditError(f"The core has no method {name} in {module}: choose one of the list.")


def module_with(method: CoreMethod, text: str) -> str:
    """Return the module's source with `text` in place of the method.

    Raises `EditError` unless `text` is one function with the method's name.
    """
    short = method.name.rpartition(".")[2]
    try:
        tree = ast.parse(dedent(text))
    except SyntaxError as error:
        raise EditError(f"SyntaxError in line {error.lineno}: {error.msg}.", error.lineno) from None
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if len(tree.body) != 1 or names != [short]:
        why = "because the engine calls it by this name"
        raise EditError(f"The editor must contain exactly one function, {short}, {why}.")
    lines = _source(method.module).splitlines()
    first = lines[method.first - 1]
    margin = first[: len(first) - len(first.lstrip())]
    lines[method.first - 1 : method.end] = indent(dedent(text).rstrip(), margin).splitlines()
    return "\n".join(lines) + "\n"


def _source(module: str) -> str:
    return Path(find_spec(module).origin).read_text(encoding="utf-8")
