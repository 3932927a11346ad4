"""What a report writes into the docs: every figure from its files, the same each time, and nothing from a dry run."""

import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.gpu_report_files import engine, gpu_tests, kernels, profile, stage, write_report
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


@pytest.fixture
def filled(tables, copy: Path, tmp_path: Path) -> Path:
    """The same, with a report put into it."""
    assert tables.main([str(write_report(tmp_path / "report", kernels(), engine(), profile(), gpu_tests()))], copy) == 0
    return copy


def contents(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def region(root: Path, page: str, name: str) -> str:
    (text,) = re.findall(rf"<!-- gpu: {name} -->(.*?)<!-- end gpu -->", (root / page).read_text(), flags=re.DOTALL)
    return text


def row_of(text: str, name: str) -> list[str]:
    return next([cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if f"| {name}" in line)


def test_what_is_committed_is_what_the_committed_measurements_give(tables):
    for name, text in tables.render(tables.read_stages(ROOT / tables.MEASURED), ROOT).items():
        path = ROOT / name
        assert (path.read_text() if path.exists() else None) == text, f"run python tools/gpu_report/tables.py: {name}"


def test_every_region_is_on_exactly_one_page(tables, tool):
    found = re.findall(r"<!-- gpu: ([\w-]+) -->", "".join((ROOT / page).read_text() for page in tables.PAGES))
    assert sorted(found) == sorted(tool("regions").REGIONS)


def test_the_ladder_has_each_rung_with_its_gain_and_its_share_of_the_copy(filled):
    text = region(filled, "docs/performance.md", "ladder")
    assert "Made-up GPU" in text and "2026-01-02" in text and "torch 2.11.0" in text and "20 runs" in text
    assert row_of(text, "`grouped`") == ["`grouped`", "400", "2,500", "83 %", "4.00 times", "440", ""]
    assert row_of(text, "sdpa") == ["sdpa (gathered)", "500", "2,000", "67 %", "", "", ""]
    assert "flex" in text and "NoSuchThing" in text
    assert "1 x 16,384" in text


def test_the_workload_has_medians_and_a_ratio_of_medians(filled):
    text = region(filled, "docs/performance.md", "workload")
    assert row_of(text, "minivllm, CUDA")[1:4] == ["10,000", "9,000, 10,000, 20,000", "256"]
    assert row_of(text, "transformers, continuous")[4] == "4.00"
    assert "it broke" in row_of(text, "transformers, one")[1]
    assert row_of(text, "transformers, one")[-1] == "24"
    assert "10,000 tokens/s" in region(filled, "README.md", "readme")
    assert "\n" not in region(filled, "README.md", "readme"), "it is a cell of a table"


def test_a_step_has_its_share_outside_of_kernels_both_ways(filled):
    text = region(filled, "docs/performance.md", "step")
    assert row_of(text, "64 | yes") == ["64", "yes", "2.00", "4.00", "1.00", "30", "300", "50 %, 75 %"]
    assert "`gemm of<all>`" in text
    assert "100 tokens at batch 64" in text


def test_tests_are_counted_and_those_that_failed_named(filled):
    text = region(filled, "docs/how-to/profile-a-gpu.md", "tests")
    assert "10 of 11 tests" in text and "2 files" in text and "1 more" in text and "`tests.b.bad`" in text


def test_the_picture_has_a_host_row_and_a_device_row_for_each_way(filled, tables):
    root = ElementTree.fromstring((filled / tables.PICTURE).read_text())
    words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("host") == words.count("device") == 2
    assert {"kernel", "launch", "Python"} <= set(words)
    assert "gpu-step.svg" in region(filled, "docs/how-to/profile-a-gpu.md", "profile-picture")


def test_the_rungs_of_lesson_12_come_from_the_ladder(filled, tables):
    from minivllm.lessons.shown.measured import MeasuredRungs, msgspec

    measured = msgspec.json.decode((filled / tables.RUNGS).read_bytes(), type=MeasuredRungs)
    ladder = measured.ladders[0]
    assert (measured.device, measured.date, ladder.batch, ladder.context) == ("Made-up GPU", "2026-01-02", 64, 4096)
    assert [rung.name for rung in ladder.rungs] == ["naive", "grouped", "split", "static"]
    assert ladder.rungs[1].microseconds == pytest.approx(400)
    assert ladder.rungs[1].share_of_copy == pytest.approx(2500 / 3000)
    assert ladder.rungs[1].microseconds_in_a_row == pytest.approx(440)


def test_writing_again_from_what_was_kept_changes_nothing(filled, tables):
    before = contents(filled)
    assert tables.main([], filled) == 0
    assert contents(filled) == before


def test_a_stage_that_a_later_report_lacks_stays(filled, tables, tmp_path):
    before = region(filled, "docs/performance.md", "ladder")
    assert tables.main([str(write_report(tmp_path / "later", engine()))], filled) == 0
    assert region(filled, "docs/performance.md", "ladder") == before


def test_without_measurements_there_is_no_picture_and_the_pages_name_the_command(copy, tables):
    assert not (copy / tables.PICTURE).exists() and not (copy / tables.RUNGS).exists()
    for name, command in (("ladder", "tools/gpu_report kernels"), ("workload", "tools/gpu_report engine")):
        text = region(copy, "docs/performance.md", name)
        assert "Not measured yet" in text and command in text


@pytest.mark.parametrize(
    ("stages", "sentence"), [([], "has no file of a stage"), ([stage("kernels", [], dry_run=True)], "is of a dry run")]
)
def test_an_empty_folder_and_a_dry_run_are_refused_and_nothing_is_written(
    stages, sentence, copy, tables, tmp_path, capsys
):
    before = contents(copy)
    assert tables.main([str(write_report(tmp_path / "bad", *stages))], copy) == 2
    assert sentence in capsys.readouterr().err
    assert contents(copy) == before


def without_speeds() -> dict[str, Any]:
    rows = [{name: value for name, value in row.items() if name != "gb_per_s"} for row in kernels()["rows"][2:]]
    return kernels() | {"rows": [*kernels()["rows"][:2], *rows]}


def test_a_file_that_lacks_what_a_table_needs_is_refused_in_one_sentence(copy, tables, tmp_path, capsys):
    before = contents(copy)
    assert tables.main([str(write_report(tmp_path / "lacking", without_speeds()))], copy) == 2
    sentence = capsys.readouterr().err
    assert "gb_per_s" in sentence and sentence.count("\n") == 1
    assert contents(copy) == before


@pytest.mark.parametrize("text", ['{"stage": "kern', '{"stage": "kernels"}'])
def test_a_file_that_is_no_stage_is_refused(text, copy, tables, tmp_path, capsys):
    (tmp_path / "kernels.json").write_text(text)
    assert tables.main([str(tmp_path)], copy) == 2
    assert "kernels.json" in capsys.readouterr().err
