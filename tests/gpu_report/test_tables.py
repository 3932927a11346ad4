"""The docs tables of a report: every figure from its files, reproducible, never from a dry run."""

import re
import shutil
from pathlib import Path

import pytest
from support.gpu_report_files import stage, write_report
from support.tool_modules import TOOLS

ROOT = TOOLS.parent


@pytest.fixture
def tables(tool):
    return tool("tables")


@pytest.fixture
def copy(tables, tmp_path: Path) -> Path:
    """A repository with our pages in it, and no measurement."""
    root = tmp_path / "copy"
    for page in tables.PAGES:
        (root / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / page, root / page)
    assert tables.main([], root) == 0
    return root


def contents(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()
    }


def region(root: Path, page: str, name: str) -> str:
    (text,) = re.findall(
        rf"<!-- gpu: {name} -->(.*?)<!-- end gpu -->", (root / page).read_text(), flags=re.DOTALL
    )
    return text


def test_the_committed_tables_follow_from_the_committed_measurements(tables):
    for name, text in tables.make_files(tables.read_stages(ROOT / tables.MEASURED), ROOT).items():
        path = ROOT / name
        assert (path.read_text() if path.exists() else None) == text, (
            f"run python tools/gpu_report/tables.py: {name}"
        )


def test_every_region_is_on_exactly_one_page_of_a_language(tables, tool):
    pages = [page for page in tables.PAGES if page != "README.zh.md"]
    found = re.findall(
        r"<!-- gpu: ([\w-]+) -->", "".join((ROOT / page).read_text() for page in pages)
    )
    assert sorted(found) == sorted(tool("regions").REGIONS)


def test_without_measurements_there_is_no_picture_and_the_pages_name_the_command(copy, tables):
    assert not (copy / tables.PICTURE).exists() and not (copy / tables.MEASURED_KERNELS).exists()
    for name, command in (
        ("ladder", "tools/gpu_report kernels"),
        ("workload", "tools/gpu_report engine"),
    ):
        text = region(copy, "docs/use/performance.md", name)
        assert "Not measured yet" in text and command in text


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [([], "has no file of a stage"), ([stage("kernels", [], dry_run=True)], "is from a dry run")],
)
def test_an_empty_folder_and_a_dry_run_are_refused_and_nothing_is_written(
    stages, sentence, copy, tables, tmp_path, capsys
):
    before = contents(copy)
    assert tables.main([str(write_report(tmp_path / "bad", *stages))], copy) == 2
    assert sentence in capsys.readouterr().err
    assert contents(copy) == before
