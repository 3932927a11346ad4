"""What a report writes into the docs: every figure from its files, the same each time, and nothing from a dry run."""

import json
import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.gpu_report_files import engine, gpu_tests, kernel_row, kernels, profile, stage, write_report
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


def test_every_engine_of_the_workload_has_its_line_and_its_goal_whether_measured_or_not(copy, tables, tool, tmp_path):
    module = tool("stage_engine")
    names = {*module.OURS.values(), *(peer.name for peer in module.PEERS)}
    assert set(tool("regions").WORKLOAD) == names
    ours_alone = engine() | {"rows": engine()["rows"][:1]}
    assert tables.main([str(write_report(tmp_path / "ours", ours_alone))], copy) == 0
    text = region(copy, "docs/performance.md", "workload")
    for name, goal in tool("regions").WORKLOAD.items():
        cells = row_of(text, name)
        assert (cells[1] == "not measured yet") == (name != tool("regions").OURS)
        assert cells[-1] == goal


def test_prefill_is_compared_with_sdpa_where_its_goal_is(copy, tables, tmp_path):
    stage = kernels()
    stage["rows"].append(kernel_row("prefill", "sdpa (gathered)", 1, 4096, 150e-6, ours=False))
    assert tables.main([str(write_report(tmp_path / "sdpa", stage))], copy) == 0
    text = region(copy, "docs/performance.md", "kernels")
    assert "`prefill` 50.0 %" in text and "60 %" in text


def test_a_peer_that_was_not_installed_is_named_and_one_with_a_row_is_not(filled, tables, tmp_path):
    assert "Not installed there: FlashInfer" in region(filled, "docs/performance.md", "ladder")
    stage = kernels()
    stage["rows"].append(kernel_row("decode", "FlashInfer (paged)", 64, 4096, 380e-6, ours=False))
    assert tables.main([str(write_report(tmp_path / "peer", stage))], filled) == 0
    assert "Not installed" not in region(filled, "docs/performance.md", "ladder")


def test_a_step_has_its_share_outside_of_kernels_both_ways(filled):
    text = region(filled, "docs/performance.md", "step")
    assert row_of(text, "64 | yes") == ["64", "yes", "2.00", "4.00", "1.00", "30", "300", "50 %, 75 %"]
    assert "`gemm of<all>`" in text
    assert "100 tokens at batch 64" in text


def test_tests_are_counted_and_those_that_failed_named(filled):
    text = region(filled, "docs/how-to/profile-a-gpu.md", "tests")
    assert "10 of 11 tests" in text and "2 files" in text and "1 more" in text and "`tests.b.bad`" in text


def test_places_of_the_tests_without_a_row_are_named_and_those_with_one_are_not(tool):
    row = {"tests": 1, "passed": 1, "skipped": 0, "failures": [], "runs": [1.0]}
    stopped = {"key": "tests/identity/test_gpu.py", "reason": "It had not ended."}
    done = stage(
        "tests", [{"key": "tests/kernels/test_a.py", **row}, {"key": "tests/runtime/test_b.py", **row}, stopped]
    )
    text = tool("regions").tests(done)
    assert text.endswith(": `tests/identity/test_gpu.py`.")
    done["rows"][-1] = {"key": "tests/identity/test_gpu.py", **row}
    assert "test_gpu.py" not in tool("regions").tests(done)


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


def test_timelines_are_kept_only_for_the_picture(filled, tables):
    rows = json.loads((filled / tables.MEASURED / "profile.json").read_text())["rows"]
    assert {row["key"] for row in rows if "timeline" in row} == {"graphs/64", "eager/64"}


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


def without_copy() -> dict[str, Any]:
    return kernels() | {"rows": kernels()["rows"][1:]}


def without_speeds() -> dict[str, Any]:
    rows = [{name: value for name, value in row.items() if name != "gb_per_s"} for row in kernels()["rows"][2:]]
    return kernels() | {"rows": [*kernels()["rows"][:2], *rows]}


def without_busy_times() -> dict[str, Any]:
    rows = [{name: value for name, value in row.items() if name != "busy"} for row in profile()["rows"]]
    return profile() | {"rows": rows}


@pytest.mark.parametrize(
    ("make", "missing"),
    [(without_copy, "device/copy"), (without_speeds, "gb_per_s"), (without_busy_times, "busy")],
)
def test_a_file_that_lacks_what_a_table_needs_is_refused_in_one_sentence(make, missing, copy, tables, tmp_path, capsys):
    before = contents(copy)
    assert tables.main([str(write_report(tmp_path / "lacking", make()))], copy) == 2
    sentence = capsys.readouterr().err
    assert missing in sentence and sentence.count("\n") == 1
    assert contents(copy) == before


@pytest.mark.parametrize("text", ['{"stage": "kern', '{"stage": "kernels"}', "[]"])
def test_a_file_that_is_no_stage_is_refused(text, copy, tables, tmp_path, capsys):
    (tmp_path / "kernels.json").write_text(text)
    assert tables.main([str(tmp_path)], copy) == 2
    assert "kernels.json" in capsys.readouterr().err


def test_other_files_beside_the_stages_are_left_alone(filled, tables):
    path = filled / tables.MEASURED / "sweep.json"
    path.write_text("not of a stage")
    assert tables.main([], filled) == 0
    assert path.read_text() == "not of a stage"


def test_a_stage_that_ended_early_gets_its_table_and_a_word_about_it(copy, tables, tmp_path):
    early = kernels() | {"status": "out of time"}
    assert tables.main([str(write_report(tmp_path / "early", early))], copy) == 0
    assert "out of time" in region(copy, "docs/performance.md", "ladder")
