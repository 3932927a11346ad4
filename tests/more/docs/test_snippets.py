"""Every code block of README, CONTRIBUTING and docs works, or says why it is not run."""

from pathlib import Path

import pytest
from support.docs.doc_blocks import ROOT, pages
from support.docs.doc_runs import faults, is_slow


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


# cli.md shows usage lines with `[OPTIONS]`, generated from the parser itself.
PAGES = [page for page in pages() if name(page) != "docs/use/cli.md"]


def told(page: Path, found: list[str]) -> str:
    return "\n".join(f"{name(page)}:{fault}" for fault in found)


LOAD_SMOLLM2 = {"README.md", "docs/use/move-to-vllm.md"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_code_of_a_page_runs(page, tmp_path, request):
    if name(page) in LOAD_SMOLLM2:
        request.getfixturevalue("smollm2_path")
    found = faults(page.read_text(), tmp_path)
    assert not found, told(page, found)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if is_slow(page.read_text())], ids=name)
def test_the_slow_code_of_a_page_runs(page, tmp_path):
    found = faults(page.read_text(), tmp_path, slow=True)
    assert not found, told(page, found)
