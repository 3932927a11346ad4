"""Builds a site with mkdocs in a subprocess: ours, or a small one with our settings and hook.

`--strict` is passed explicitly, although mkdocs.yml sets it too: the tests check that a broken page
fails the build.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml
from mkdocs.utils.yaml import get_yaml_loader, yaml_load
from pathspec.gitignore import GitIgnoreSpec

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


@dataclass(frozen=True, slots=True)
class Build:
    """Exit status and output of one `mkdocs build --strict`."""

    status: int
    said: str
    site: Path


def build(configuration: Path, site: Path) -> Build:
    options = ["--strict", "-f", str(configuration), "-d", str(site)]
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", *options],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    return Build(run.returncode, run.stdout + run.stderr, site)


def settings() -> dict:
    with (ROOT / "mkdocs.yml").open(encoding="utf-8") as file:
        return yaml_load(file, get_yaml_loader())


def small_configuration(folder: Path, pages: dict[str, str], nav: list[str] | None = None) -> Path:
    """Write the mkdocs.yml of a small site into `folder`: its own pages, our settings and hook."""
    docs = folder / "docs"
    for name, text in pages.items():
        page = docs / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    ours = settings()
    configuration = folder / "mkdocs.yml"
    configuration.write_text(
        yaml.safe_dump(
            {
                "site_name": "small",
                "docs_dir": str(docs),
                "use_directory_urls": False,
                "plugins": [],
                "validation": ours["validation"],
                "hooks": [str(ROOT / hook) for hook in ours["hooks"]],
                "markdown_extensions": ours["markdown_extensions"],
                "nav": list(pages) if nav is None else nav,
            }
        ),
        encoding="utf-8",
    )
    return configuration


def pages_of_docs() -> list[str]:
    """Addresses of all pages in docs/ inside the site, such as `learn/index.html`."""
    hidden = GitIgnoreSpec.from_lines(settings()["exclude_docs"].splitlines())
    files = (file.relative_to(DOCS) for file in DOCS.rglob("*.md"))
    return sorted(
        file.with_suffix(".html").as_posix() for file in files if not hidden.match_file(file)
    )


def moved_pages() -> dict[str, str]:
    """Old address of each page that moved -> its address now, maybe with an anchor."""
    moved = settings()["plugins"]["redirects"]["redirect_maps"]
    return {old.replace(".md", ".html"): new.replace(".md", ".html") for old, new in moved.items()}
