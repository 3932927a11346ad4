"""The engine's source for an event: the function that decides, and the line that emits the event.

The dashboard must not import the engine or torch, so it reads the source without running it: it
finds the file with the import system, and the function and the kind's name in the syntax tree.
"""

import ast
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
    text = "" if file is None else file.read_text(encoding="utf-8")
    found = _function(ast.parse(text), qualname.split("."))
    if found is None:
        return SourceLines(f"There is no {clean(rule.name)} in this minivllm.")
    first = min([found.lineno, *(decorator.lineno for decorator in found.decorator_list)])
    lines = text.splitlines()[first - 1 : found.end_lineno]
    marked = frozenset(_lines_with(rule.kind.__name__, found) if rule.kind else ())
    where = f"{module.replace('.', '/')}.py:{min(marked, default=found.lineno)}  {qualname}"
    return SourceLines(where, first, "\n".join(lines), marked)


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
        nodes = (node for node in ast.iter_child_nodes(tree) if getattr(node, "name", "") == name)
        tree = next(nodes, None)
        if tree is None:
            return None
    return tree if isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def _lines_with(kind: str, function: ast.AST) -> set[int]:
    """The lines that name a kind of event, and those of the call that emits it."""
    named = {node.lineno for node in ast.walk(function) if _name(node) == kind}
    calls = [call for call in ast.walk(function) if isinstance(call, ast.Call)]
    emits = [
        (call.args[0], range(call.lineno, call.end_lineno + 1))
        for call in calls
        if _name(call.func) == "emit"
    ]
    found = [lines for _, lines in emits if named.intersection(lines)]
    # Without such a call, a variable has the kind (`kind = A if resumed else B`).
    found = found or [lines for kind, lines in emits if isinstance(kind, ast.Name)]
    return named.union(*found)


def _name(node: ast.AST) -> str | None:
    """`name`, for a node `name` or `anything.name`."""
    return getattr(node, "attr", None) or getattr(node, "id", None)
