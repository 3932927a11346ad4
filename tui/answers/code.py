"""The engine's source for an event: the function that decides, and the line that emits the event.

The dashboard must not import the engine or torch, so it reads the source without running it: it
finds the file with the import system, and the function and its `emit` call in the syntax tree. If a
function emits a kind through a variable (`kind = A if resumed else B`), the line with the kind's
name is marked too.
"""

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from inspect import cleandoc
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from minivllm.events import types as ev
from minivllm.text import clean
from minivllm.tui.context import Context
from minivllm.tui.draw.theme import DARK, LIGHT
from minivllm.tui.time.event_search import event_in_question
from minivllm.tui.widgets.frame.panel import Panel


class Rule(NamedTuple):
    name: str
    """`module:Class.function`"""
    kind: type[ev.Event] | None = None
    """Lines that emit this kind of event are marked."""


class SourceLines(NamedTuple):
    title: str
    """`minivllm/core/scheduler.py:118  Scheduler._defer`, or why no source was found."""
    first_line: int = 0
    code: str = ""
    marked: frozenset[int] = frozenset()

    def syntax(self, dark: bool) -> RenderableType:
        if not self.code:
            return Text(
                "This minivllm is not the version that wrote the recording, or it was"
                " installed without its source."
            )
        chrome = DARK if dark else LIGHT
        # Import late: the highlighter is large, and the first frame does not need it.
        from rich.syntax import Syntax

        shown = Syntax(
            dedent(self.code),
            "python",
            theme="monokai" if dark else "xcode",
            line_numbers=True,
            start_line=self.first_line,
            highlight_lines=set(self.marked),
            word_wrap=True,
            background_color=chrome.panel,
        )
        for number in self.marked:
            row = number - self.first_line + 1
            shown.stylize_range(f"bold on {chrome.variables['rule']}", (row, 0), (row + 1, 0))
        return shown

    @property
    def row(self) -> int:
        """Number of lines above the first marked line."""
        return min(self.marked, default=self.first_line) - self.first_line


def rule_of(context: Context, focused: Panel | None) -> Rule | None:
    """Choose whose source to show: the rule behind the current event, or the focused panel's rule.

    Between two steps, the newest event is the end of a step, which explains little. There the
    focused panel's rule comes first.
    """
    event = event_in_question(context)
    chosen = context.selection.last is not None and context.selection.last.kind == "event"
    panel = None if focused is None or focused.RULE is None else Rule(focused.RULE)
    if panel is not None and not chosen and (event is None or type(event) is ev.StepEnd):
        return panel
    return panel if event is None else Rule(event.rule, type(event))


def meaning_of(kind: type[ev.Event]) -> str:
    """The first paragraph of an event class's docstring, as one line."""
    first, _, _ = cleandoc(kind.__doc__ or "").partition("\n\n")
    return " ".join(first.split())


def source_of(rule: Rule) -> SourceLines:
    module, _, qualname = rule.name.partition(":")
    file = _file_of(module)
    found = (
        None
        if file is None
        else _function(ast.parse(file.read_text(encoding="utf-8")), qualname.split("."))
    )
    if file is None or found is None:
        return SourceLines(f"There is no {clean(rule.name)} in this minivllm.")
    lines = file.read_text(encoding="utf-8").splitlines()
    first = min([found.lineno, *(decorator.lineno for decorator in found.decorator_list)])
    marked = (
        frozenset() if rule.kind is None else frozenset(_lines_that_tell(found, rule.kind.__name__))
    )
    where = f"{module.replace('.', '/')}.py:{min(marked, default=found.lineno)}  {qualname}"
    return SourceLines(where, first, "\n".join(lines[first - 1 : found.end_lineno]), marked)


def _file_of(module: str) -> Path | None:
    """Find a module's file. This imports the module's parent packages, but not the module."""
    if module.partition(".")[0] != "minivllm":
        return None
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    path = None if spec is None or spec.origin is None else Path(spec.origin)
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


def _function(tree: ast.AST, names: list[str]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    for name in names:
        tree = next(
            (
                node
                for node in ast.iter_child_nodes(tree)
                if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
                and node.name == name
            ),
            None,
        )
        if tree is None:
            return None
    return tree if isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def _lines_that_tell(function: ast.AST, kind: str) -> Iterator[int]:
    """Yield the lines that emit or make a `kind`; if there are none, the lines that name it."""
    direct = [
        call
        for call in _calls(function)
        if _is(call.func, kind) or (_emits(call) and _is(call.args[0], kind))
    ]
    for call in direct:
        yield from range(call.lineno, call.end_lineno + 1)
    if direct:
        return
    named = {node.lineno for node in ast.walk(function) if _is(node, kind)}
    for call in _calls(function):
        if named and _emits(call) and isinstance(call.args[0], ast.Name):
            yield from range(call.lineno, call.end_lineno + 1)
    yield from named


def _calls(function: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(function) if isinstance(node, ast.Call))


def _emits(call: ast.Call) -> bool:
    return _is(call.func, "emit") and bool(call.args)


def _is(node: ast.AST, name: str) -> bool:
    """Whether the node is `name`, or `anything.name`."""
    return (isinstance(node, ast.Attribute) and node.attr == name) or (
        isinstance(node, ast.Name) and node.id == name
    )
