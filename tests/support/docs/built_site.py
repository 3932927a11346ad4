"""Builds the site as `make docs` does, and reads its settings."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mkdocs.utils.yaml import get_yaml_loader, yaml_load
from pathspec.gitignore import GitIgnoreSpec

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


@dataclass(frozen=True, slots=True)
class Build:
    """Exit status and output of what prepares the pages and of `mkdocs build --strict`."""

    status: int
    said: str
    site: Path


def build(site: Path) -> Build:
    pages = site.with_name(f"{site.name}-pages")
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "SITE_DOCS": str(pages)}
    for command in (
        ["tools/site/prepare.py", pages],
        ["-m", "mkdocs", "build", "--strict", "-d", site],
    ):
        run = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True
        )
        if run.returncode:
            break
    return Build(run.returncode, run.stdout + run.stderr, site)


def settings() -> dict:
    with (ROOT / "mkdocs.yml").open(encoding="utf-8") as file:
        return yaml_load(file, get_yaml_loader())


def pages_of_docs() -> list[str]:
    """Addresses of all pages in docs/ inside the site, such as `learn/index.html`."""
    hidden = GitIgnoreSpec.from_lines(settings()["exclude_docs"].splitlines())
    files = (file.relative_to(DOCS) for file in DOCS.rglob("*.md"))
    return sorted(
        file.with_suffix(".html").as_posix() for file in files if not hidden.match_file(file)
    )
