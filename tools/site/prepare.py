#!/usr/bin/env python3
"""Writes build/docs, from which mkdocs or Zensical builds the site; `make docs` runs both.

    tools/site/prepare.py [FOLDER]             # default: build/docs
    tools/site/prepare.py --watch              # and again whenever a page of docs/ changes

The folder has all of docs/, and also:

    source/                        a page for each source file to which a page links
    assets/player/                 the player, and each recording as a script that a page can load
    assets/playground/, pyodide/   the playground's Python (`playground_files`)

In a page, `[block_pool.py](../../minivllm/core/block_pool.py#BlockPool.free_blocks)` is a link that
also works on a code host. But the site must work from file://. So each linked file becomes a page,
and the name after `#` is replaced by the line that defines the name. A page opened from disk may
load scripts, but may not read other files. A link to a missing name ends the run with status 1.
"""

import posixpath
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import playground_files
from page_text import DOCS, ROOT

from minivllm.cli.recordings.bundle import player_script
from minivllm.cli.recordings.web import script_of

LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<path>(?:\.\./)+[\w./-]+)(?:#(?P<name>[\w.-]+))?\)")
WITHOUT_SCRIPTS = "Each picture of a run on this page becomes a player if JavaScript is on."


def prepare(folder: Path) -> None:
    written = set()
    for name, content in files():
        path = folder / name
        written.add(path)
        # `mkdocs serve` watches the folder.
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    for path in set(folder.rglob("*")) - written:
        if path.is_file():  # of an earlier run
            path.unlink()


def files() -> Iterator[tuple[str, bytes]]:
    """Name and content of each file of the folder."""
    sources: set[str] = set()
    for file in filter(Path.is_file, DOCS.rglob("*")):
        name, content = file.relative_to(DOCS).as_posix(), file.read_bytes()
        if file.suffix == ".md":
            content = page(name, content.decode(), sources).encode()
        yield name, content
        if file.suffix == ".jsonl":
            recording = name.removeprefix("assets/recordings/").removesuffix(".jsonl")
            yield f"assets/player/recordings/{recording}.js", script_of(recording, content).encode()
    for source in sources:
        yield f"source/{source}.md", source_page(source).encode()
    yield "assets/player/player.js", player_script().encode()
    yield from playground_files.files()


def page(page: str, text: str, sources: set[str]) -> str:
    """A page in which links to source files lead to pages. Adds the files to `sources`."""

    def to_page(match: re.Match[str]) -> str:
        source = linked_file(page, match["path"])
        if source is None:
            return match[0]
        sources.add(source)
        place = posixpath.relpath(f"source/{source}", posixpath.dirname(page) or ".")
        if match["name"] is None:
            return f"[{match['text']}]({place}.md)"
        line = line_of((ROOT / source).read_text(encoding="utf-8"), match["name"])
        if line is None:
            sys.exit(f"docs/{page} links to {source}#{match['name']}")
        # The builders do not find the lines' anchors, so they must not check them.
        return f'<a href="{place}.html#__codelineno-0-{line}">{match["text"]}</a>'

    text = LINK.sub(to_page, text)
    if 'class="player"' in text and "needs JavaScript" not in text:
        note = f"<noscript>{WITHOUT_SCRIPTS}</noscript>"
        text = re.sub("^# .*\n", rf"\g<0>\n{note}\n", text, count=1, flags=re.MULTILINE)
    return text


def linked_file(page: str, link: str) -> str | None:
    """The file to which a link leads; None if it is inside docs/ or does not exist."""
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    path = ROOT / target
    if target.startswith("docs/") or not path.resolve().is_relative_to(ROOT):
        return None
    if path.is_dir() and (path / "__init__.py").is_file():
        return f"{target}/__init__.py"
    return target if path.is_file() else None


def source_page(source: str) -> str:
    text = (ROOT / source).read_text(encoding="utf-8")
    language = Path(source).suffix.removeprefix(".").replace("yml", "yaml") or "text"
    fence = "`" * (3 + max((len(run) for run in re.findall("`{3,}", text)), default=0))
    # Exclude the page from search, because pages of code would match every query.
    head = f"---\ntitle: {source}\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n# {source}\n\n"
    return f'{head}{fence} {{.{language} linenums="1"}}\n{text}\n{fence}\n'


def line_of(text: str, name: str) -> int | None:
    """The line that defines a dotted name (class, function, method or constant)."""
    start = 0
    for part in name.split("."):
        definitions = (rf"^ *(?:async def|def|class) {part}\b", rf"^ *{part}(?:: .+| = )")
        found = re.compile(definitions[0], re.M).search(text, start)
        found = found or re.compile(definitions[1], re.M).search(text, start)
        if found is None:
            return None
        start = found.end()
    return text.count("\n", 0, start) + 1


def main(arguments: list[str]) -> None:
    folders = [Path(folder) for folder in arguments if folder != "--watch"] or [ROOT / "build/docs"]
    prepare(folders[0])
    before = None
    while "--watch" in arguments:
        now = max(file.stat().st_mtime for file in DOCS.rglob("*"))
        if before not in (None, now):
            prepare(folders[0])
        before = now
        time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1:])
