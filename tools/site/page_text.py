"""Building blocks of the generated pages: tables, escaped prose, links to the source, field docs.

Characters such as `*` or `<`, which Markdown would interpret, are escaped, except between
backticks.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

ROOT = Path(__file__).resolve().parents[2]
_CODE = re.compile(r"(`+.*?`+)", re.DOTALL)
_SPECIAL = re.compile(r"([\\*\[\]{}|]|(?<!\w)_|_(?!\w))")


def prose(text: str) -> str:
    """Escape a paragraph as one line of Markdown, which can be a table cell."""
    pieces = _CODE.split(" ".join(text.split()))
    for i in range(0, len(pieces), 2):
        pieces[i] = _SPECIAL.sub(r"\\\1", pieces[i]).replace("<", "&lt;")
    for i in range(1, len(pieces), 2):
        pieces[i] = pieces[i].replace("|", r"\|")
    return "".join(pieces)


def paragraphs(doc: str | None) -> str:
    return "\n\n".join(prose(part) for part in inspect.cleandoc(doc or "").split("\n\n"))


def code(text: object) -> str:
    return f"`{text}`".replace("|", r"\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; the cells must already be Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def sentence(text: str) -> str:
    """Add a full stop. Start with a capital letter, unless the first word is a URL or a name."""
    text = text.strip()
    if not re.search(r"://|_", text.split(" ")[0]):
        text = text[:1].upper() + text[1:]
    return text if not text or text.endswith((".", "!", "?", ":")) else f"{text}."


def source_link(target: str, text: str | None = None) -> str:
    """A link from a page in docs/inside or docs/use to a module, or to `module:Name.name`."""
    module, _, name = target.partition(":")
    path = _path_of(module)
    shown = code(text or name or module)
    return f"[{shown}](../../{path}{'#' if name else ''}{name})"


def _path_of(module: str) -> str:
    # Three folders are packages of minivllm but are at the top of the repository.
    parts = module.split(".")
    if parts[:1] == ["minivllm"] and parts[1:2] and parts[1] in ("kernels", "tui", "lessons"):
        parts = parts[1:]
    path = Path(*parts)
    return f"{path}/__init__.py" if (ROOT / path).is_dir() else f"{path}.py"


@cache
def field_docs(cls: type) -> dict[str, str]:
    """The strings under the fields of a class and its bases, in source order."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith("minivllm"):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body
        for statement, after in zip(body, [*body[1:], None], strict=True):
            if not isinstance(statement, ast.AnnAssign) or "ClassVar" in ast.unparse(
                statement.annotation
            ):
                continue
            is_doc = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            docs[statement.target.id] = str(after.value.value) if is_doc else ""
    return docs


def type_name(cls: type, name: str) -> str:
    """A field's type as Markdown, with separate code spans for alternatives.

    A `|` is avoided, because Markdown renderers treat it differently in a table's code span.
    """
    hint = get_type_hints(cls)[name]
    alternatives = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    shown = [part for alternative in alternatives for part in _alternatives(alternative)]
    return " or ".join(map(code, shown)) if len(shown) < 3 else ", ".join(map(code, shown))


def _alternatives(hint: Any) -> list[str]:
    if hint is NoneType:
        return ["None"]
    if get_origin(hint) is Literal:
        return [f'"{part}"' for part in get_args(hint)]
    if get_origin(hint) is None:
        return [hint.__name__]
    inner = (
        " or ".join(_alternatives(part)) if part is not ... else "..." for part in get_args(hint)
    )
    return [f"{get_origin(hint).__name__}[{', '.join(inner)}]"]
