"""The fenced code blocks of a page, each with what the page says of running it. Nothing is run
here: that is `doc_runs`.

What the tests do with a block follows from its language and from a mark, an HTML comment on the
line directly before its fence:

    <!-- not run: needs a GPU -->       commands are only parsed, code is only compiled;
                                        the reason is for readers
    <!-- slow: 40 s -->                 run by `make test-slow` alone

The easy thing to get wrong is a block that nobody sees: an indented one (in a list, in a tab of the
site) is a block, too.
"""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[3]

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
_MARK = re.compile(r"^ *<!-- *(?P<kind>not run|slow)(?: *: *(?P<reason>.*?))? *--> *$")
_TITLE = re.compile(r'title="([^"]+)"')
_CODE_SPAN = re.compile(r"(?<!`)`((?:minivllm|make) [^`]+)`(?!`)")


@dataclass(frozen=True)
class Mark:
    """What a page says of a block, and why."""

    kind: Literal["not run", "slow"]
    reason: str


@dataclass(frozen=True)
class Block:
    """One fenced block. `line` is that of its first line of text, counted from 1, as editors
    count.
    """

    line: int
    language: str
    text: str
    title: str | None = None
    """The name of the file that the block is: it is written, and run by what comes after it."""
    mark: Mark | None = None


def pages() -> list[Path]:
    """Every page whose blocks are run."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: str) -> list[Block]:
    """The fenced blocks in the text of a page, in order."""
    found = []
    lines = page.splitlines()
    number = 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        number += 1
        if opening is None:
            continue
        start = number
        while number < len(lines) and not _closes(opening["fence"], lines[number]):
            number += 1
        text = textwrap.dedent("\n".join(lines[start:number]) + "\n")
        language, _, rest = opening["info"].strip().partition(" ")
        title = _TITLE.search(rest)
        mark = _MARK.match(lines[start - 2]) if start > 1 else None
        found.append(
            Block(
                start + 1,
                language,
                text,
                title[1] if title else None,
                Mark(mark["kind"], mark["reason"] or "") if mark else None,
            )
        )
        number += 1
    return found


def command_spans(page: str) -> list[tuple[int, str]]:
    """The commands that stand inside sentences and tables, `minivllm ...` or `make ...` in
    backquotes: their lines and texts.
    """
    return [
        (number, span.replace("\\|", "|"))
        for number, line in enumerate(page.splitlines(), 1)
        for span in _CODE_SPAN.findall(line)
    ]


def _closes(fence: str, line: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(fence) and set(stripped) == {fence[0]}
