"""Zensical, the successor of mkdocs-material, builds the same site from the same settings.

It is no dependency: the test needs it in an environment of its own, with mkdocstrings-python, and
the path of its command in MINIVLLM_ZENSICAL.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.docs.built_site import ROOT

ZENSICAL = os.environ.get("MINIVLLM_ZENSICAL") or shutil.which("zensical")


def pages(site: Path) -> dict[str, str]:
    files = site.rglob("*.html")
    return {one.relative_to(site).as_posix(): one.read_text(encoding="utf-8") for one in files}


@pytest.mark.slow
@pytest.mark.skipif(ZENSICAL is None, reason="no Zensical: see the docstring of this file")
def test_zensical_builds_the_site_that_mkdocs_builds(site, tmp_path):
    for name in ("tools", "minivllm", "kernels", "lessons", "tui"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)  # it builds what is below its settings
    command = [sys.executable, ROOT / "tools/site/prepare.py", tmp_path / "build/docs"]
    subprocess.run(command, check=True)
    run = subprocess.run([ZENSICAL, "build", "--strict"], cwd=tmp_path, capture_output=True)
    assert run.returncode == 0, run.stdout + run.stderr
    theirs, ours = pages(tmp_path / "site"), pages(site)
    assert theirs.keys() == ours.keys()
    for name, page in ours.items():
        for shows in (r'data-recording="[^"]+"', r'src="[^"]+\.(?:svg|png)"', r"<h[1-4] id=\S+"):
            assert re.findall(shows, theirs[name]) == re.findall(shows, page), name
