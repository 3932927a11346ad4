#!/usr/bin/env python3
"""Writes build/docs, from which mkdocs builds the site; `make docs` runs both.

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

import ast
import os
import posixpath
import re
import sys
import time
from pathlib import Path

import playground_files

from minivllm.cli.recordings.bundle import player_script
from minivllm.cli.recordings.web import script_of

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<path>(?:\.\./)+[\w./-]+)(?:#(?P<name>[\w.-]+))?\)")
LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "bash", ".yml": "yaml"}
WITHOUT_SCRIPTS = (
    "<noscript><p>Each picture of a run on this page becomes a player if JavaScript is on.</p>"
    "</noscript>\n"
)


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.missing: list[str] = []
        """Links to names that do not exist."""
        self._written: set[Path] = set()

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file, unless it has this content already: `mkdocs serve` watches the folder."""
        path = self.folder / name
        self._written.add(path)
        content = content.encode() if isinstance(content, str) else content
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def write_all(self) -> None:
        linked: set[str] = set()
        for file in DOCS.rglob("*"):
            name = file.relative_to(DOCS).as_posix()
            if file.suffix == ".md":
                self.write(name, self._page(name, file.read_text(encoding="utf-8"), linked))
            elif file.is_file():
                self.write(name, file.read_bytes())
        for source in linked:
            self.write(f"source/{source}.md", source_page(source))
        self.write("assets/player/player.js", player_script())
        recordings = DOCS / "assets/recordings"
        for file in recordings.rglob("*.jsonl"):
            name = file.relative_to(recordings).with_suffix("").as_posix()
            script = script_of(name, file.read_bytes())
            self.write(f"assets/player/recordings/{name}.js", script)
        for name, content in playground_files.files():
            self.write(name, content)
        for path in set(self.folder.rglob("*")) - self._written:
            if path.is_file():  # of an earlier run
                path.unlink()

    def _page(self, page: str, text: str, linked: set[str]) -> str:
        """A page in which links to source files lead to pages. Adds the files to `linked`."""

        def to_page(match: re.Match[str]) -> str:
            source = linked_file(page, match["path"])
            if source is None:
                return match[0]
            linked.add(source)
            place = posixpath.relpath(f"source/{source}", posixpath.dirname(page) or ".")
            if match["name"] is None:
                return f"[{match['text']}]({place}.md)"
            line = line_of((ROOT / source).read_text(encoding="utf-8"), match["name"])
            if line is None:
                self.missing.append(f"docs/{page} links to {source}#{match['name']}")
            # mkdocs does not find the lines' anchors, so it must not check them.
            return f'<a href="{place}.html#__codelineno-0-{line}">{match["text"]}</a>'

        text = LINK.sub(to_page, text)
        if 'class="player"' in text and "needs JavaScript" not in text:
            text = re.sub(
                "^# .*\n", rf"\g<0>\n{WITHOUT_SCRIPTS}", text, count=1, flags=re.MULTILINE
            )
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
    language = LANGUAGES.get(Path(source).suffix, "text")
    fence = "`" * (3 + max((len(run) for run in re.findall("`{3,}", text)), default=0))
    # Exclude the page from search, because pages of code would match every query.
    head = f"---\ntitle: {source}\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n# {source}\n\n"
    return f'{head}{fence} {{.{language} linenums="1"}}\n{text}\n{fence}\n'


def line_of(text: str, name: str) -> int | None:
    """The line that defines a dotted name (class, function, method or constant)."""
    scope: list[ast.stmt] = ast.parse(text).body
    line = None
    for part in name.split("."):
        statement = next((one for one in scope if part in _names(one)), None)
        if statement is None:
            return None
        line, scope = statement.lineno, getattr(statement, "body", [])
    return line


def _names(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def main(arguments: list[str]) -> int:
    folders = [Path(one) for one in arguments if one != "--watch"]
    site = Site(folders[0] if folders else ROOT / "build/docs")
    site.write_all()
    print(*site.missing, sep="\n", end="\n" if site.missing else "", file=sys.stderr)
    before = None
    while "--watch" in arguments:
        now = max(os.stat(file).st_mtime for file in DOCS.rglob("*"))
        if before not in (None, now):
            site.write_all()
        before = now
        time.sleep(1)
    return 1 if site.missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
