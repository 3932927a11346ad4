"""Building blocks of the generated pages: tables, boxes, links to the source, field docs."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from minivllm.lessons.teacher.transcript import escaped

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def prose(text: str) -> str:
    """A paragraph as one line of Markdown, which can be a table cell."""
    return re.sub(r"(?<!\\)\|", r"\|", escaped(" ".join(text.split())))


def paragraphs(doc: str | None) -> str:
    return "\n\n".join(prose(part) for part in inspect.cleandoc(doc or "").split("\n\n"))


def code(text: object) -> str:
    return f"`{text}`".replace("|", r"\|")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; the cells must already be Markdown."""
    return "".join(
        f"| {' | '.join(map(str, row))} |\n" for row in (head, ["---"] * len(head), *rows)
    )


def box(kind: str, title: str, body: str) -> str:
    """An admonition that a click opens."""
    return f'??? {kind} "{title}"\n\n{textwrap.indent(body.rstrip(), "    ")}\n'


def sentence(text: str) -> str:
    """Add a full stop. Start with a capital letter, unless the first word is a URL or a name."""
    text = text.strip()
    if not re.search(r"://|_", text.split(" ")[0]):
        text = text[:1].upper() + text[1:]
    return text if not text or text.endswith((".", "!", "?", ":")) else f"{text}."


def source_link(target: str) -> str:
    """A link from a page in a folder of docs to a module, or to `module:Name.name`."""
    module, _, name = target.partition(":")
    # kernels, tui and lessons are links in minivllm to folders of the repository.
    path = (ROOT / module.replace(".", "/")).resolve()
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    place = f"../../{path.relative_to(ROOT)}" + (f"#{name}" if name else "")
    return f"[{code(name or module)}]({place})"


@cache
def field_docs(cls: type) -> dict[str, str]:
    """The strings under the fields of a class and its bases, in source order."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("minivllm"):
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body
            for statement, after in zip(body, [*body[1:], None], strict=True):
                match statement, after:
                    case ast.AnnAssign(), ast.Expr(value=ast.Constant(value=doc)):
                        docs[statement.target.id] = doc
    return docs


def type_name(cls: type, name: str) -> str:
    """A field's type as Markdown, with a code span for each alternative: a `|` would end a cell."""
    hint = get_type_hints(cls)[name]
    alternatives = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    shown = [code(part) for alternative in alternatives for part in _alternatives(alternative)]
    return " or ".join(shown) if len(shown) < 3 else ", ".join(shown)


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
