"""A hook of mkdocs: pages can link to source files, which then become pages of the site.

In a page, `[block_pool.py](../../minivllm/core/block_pool.py#BlockPool.free_blocks)` is a link that
also works on a code host. But the site must work from file://. So each linked file becomes a page,
and the name after `#` is replaced by the line that defines the name. A missing file or name is a
warning; with `mkdocs build --strict`, it is an error.
"""

import ast
import logging
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?P<path>(?:\.\./)+[\w./-]+)(?:#(?P<name>[\w.-]+))?\)")
LINE_ANCHOR = re.compile(r'id="(__codelineno-0-\d+)"')
PAGES = "source"
"""The site's folder for pages made from source files."""

log = logging.getLogger("mkdocs.hooks.source_pages")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside docs/ to which a page links."""
    linked = set()
    for file in files.documentation_pages():
        for match in LINK.finditer(Path(file.abs_src_path).read_text(encoding="utf-8")):
            if source := _linked_file(file.src_uri, match["path"]):
                linked.add(source)
    for source in sorted(linked):
        address = f"{PAGES}/{source}.md"
        # Mark the page as not in the navigation. Otherwise the strict build would report it.
        files.append(
            File.generated(
                config, address, content=_page(source), inclusion=InclusionLevel.NOT_IN_NAV
            )
        )
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links to source files by links to the pages that `on_files` made."""
    if page.file.src_uri.startswith(f"{PAGES}/"):
        return markdown  # show the source unchanged

    def to_page(match: re.Match[str]) -> str:
        source = _linked_file(page.file.src_uri, match["path"])
        if source is None:
            return match[0]
        target = posixpath.relpath(
            f"{PAGES}/{source}.md", posixpath.dirname(page.file.src_uri) or "."
        )
        if match["name"] is None:
            return f"]({target})"
        line = line_of((ROOT / source).read_text(encoding="utf-8"), match["name"])
        if line is None:
            log.warning(
                "%s links to %s#%s, and there is no such name",
                page.file.src_uri,
                source,
                match["name"],
            )
        return f"]({target}#__codelineno-0-{line})"

    return LINK.sub(to_page, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Register the line anchors of the pages that `on_files` made; mkdocs does not find them."""
    if page.file.src_uri.startswith(f"{PAGES}/") and page.present_anchor_ids is not None:
        page.present_anchor_ids.update(LINE_ANCHOR.findall(html))
    return html


def _linked_file(page: str, link: str) -> str | None:
    """The file to which a link leads; None if it is inside docs/ or does not exist."""
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    path = ROOT / target
    if target.startswith("docs/") or not path.resolve().is_relative_to(ROOT):
        return None
    if path.is_dir() and (path / "__init__.py").is_file():
        return f"{target}/__init__.py"
    return target if path.is_file() else None


def _page(source: str) -> str:
    language = {".py": "python", ".toml": "toml", ".sh": "bash", ".yml": "yaml"}.get(
        Path(source).suffix, "text"
    )
    text = (ROOT / source).read_text(encoding="utf-8")
    fence = "`" * (3 + max((len(run) for run in re.findall("`{3,}", text)), default=0))
    # Exclude the page from search, because pages of code would match every query.
    head = f"---\ntitle: {source}\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n# {source}\n\n"
    return f'{head}{fence} {{.{language} linenums="1"}}\n{text}\n{fence}\n'


def line_of(text: str, name: str) -> int | None:
    """The line that defines a dotted name (class, function, method or constant)."""
    scope: list[ast.stmt] = ast.parse(text).body
    line = None
    for part in name.split("."):
        statement = next((s for s in scope if part in _names(s)), None)
        if statement is None:
            return None
        line, scope = statement.lineno, getattr(statement, "body", [])
    return line


def _names(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()
