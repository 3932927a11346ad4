"""The docs tables of a report: every figure from its files, reproducible, never from a dry run."""

import pytest
from support.gpu_report_files import stage, write_report
from support.tool_modules import TOOLS

ROOT = TOOLS.parent


def test_the_committed_tables_follow_from_the_committed_measurements(tool):
    tables = tool("tables")
    for name, text in tables.make_files(tables.read_stages(ROOT / tables.MEASURED), ROOT).items():
        path = ROOT / name
        committed = path.read_text() if path.exists() else None
        assert committed == text, f"run python tools/gpu_report/tables.py: {name}"


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [([], "has no file of a stage"), ([stage("kernels", [], dry_run=True)], "is from a dry run")],
)
def test_an_empty_folder_and_a_dry_run_are_refused_and_nothing_is_written(
    stages, sentence, tool, tmp_path, capsys
):
    report, copy = write_report(tmp_path / "bad", *stages), tmp_path / "copy"
    assert tool("tables").main([str(report)], copy) == 2
    assert sentence in capsys.readouterr().err
    assert not copy.exists()
