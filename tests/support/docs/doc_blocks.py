"""Finds the fenced code blocks of a page and their marks. `doc_runs` runs them.

A block's language, and an HTML comment directly above its fence, decide how it is tested:

    <!-- not run: needs a GPU -->       commands are only parsed, code is only compiled;
                                        the reason is for readers
    <!-- slow: 40 s -->                 run by `make test-slow` only

Indented blocks (in a list, or in a tab of the site) are found too.
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


@dataclass(frozen=True)
class Mark:
    """The mark above a block: its kind and reason."""

    kind: Literal["not run", "slow"]
    reason: str


@dataclass(frozen=True)
class Block:
    """One fenced block. `line` is the number of its first text line, from 1."""

    line: int
    language: str
    text: str
    title: str | None = None
    """File name of the block: it is written to disk, and later blocks can run it."""
    mark: Mark | None = None


def pages() -> list[Path]:
    """Every page whose blocks are run."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
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
        mark = Mark(mark["kind"], mark["reason"] or "") if mark else None
        found.append(Block(start + 1, language, text, title[1] if title else None, mark))
        number += 1
    return found


def _closes(fence: str, line: str) -> bool:
    return line.strip().startswith(fence) and set(line.strip()) == {fence[0]}
