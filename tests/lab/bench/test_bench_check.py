"""`make bench-check`: what counts as a regression, and what is said. Nothing is measured here."""

import json
from pathlib import Path
from types import ModuleType

import pytest
from support.tool_modules import load_tool

PATH = Path(__file__).resolve().parents[3] / "tools" / "bench_check.py"
WORKLOADS = ("decode-quick", "ragged-quick", "shared-prefix-quick", "single-quick")


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load_tool("bench_check.py")
    monkeypatch.setattr(module, "COMMITTED", tmp_path / "bench_ratios.json")
    return module


def measured(*ratios: float, cpu: str = "A") -> dict:
    common = {"model": "smollm2", "threads": 2, "rounds": 5, "machine": {"cpu": cpu, "cores": 2}}
    versions = {"versions": {"torch": "2.13.0", "transformers": "5.23.0"}}
    return {
        "workloads": [
            {"workload": name, "ratio": ratio} | common | versions
            for name, ratio in zip(WORKLOADS, ratios, strict=True)
        ]
    }


def test_what_was_written_passes_and_a_seventh_less_passes_too(check: ModuleType, monkeypatch, capsys) -> None:
    monkeypatch.setattr(check, "measure", lambda *_: measured(1.5, 2.0, 5.0, 1.0))
    assert check.main(["--update"]) == 0
    assert check.main([]) == 0
    monkeypatch.setattr(check, "measure", lambda *_: measured(1.28, 1.71, 4.26, 0.86))
    assert check.main([]) == 0
    assert "decode-quick: 1.28 against the committed 1.50 (-15 %), ok" in capsys.readouterr().out


def test_the_committed_ratios_are_there_for_every_workload(check: ModuleType) -> None:
    committed = check.read_committed(PATH.parent / "bench_ratios.json")
    assert set(committed["ratios"]) == set(WORKLOADS)


def test_one_ratio_that_is_too_low_fails_and_is_named_with_its_numbers(check: ModuleType, monkeypatch, capsys) -> None:
    monkeypatch.setattr(check, "measure", lambda *_: measured(1.5, 2.0, 5.0, 1.0))
    check.main(["--update"])
    monkeypatch.setattr(check, "measure", lambda *_: measured(1.5, 1.6, 9.0, 1.0))
    assert check.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "too slow" in line] == [
        "ragged-quick: 1.60 against the committed 2.00 (-20 %), more than 15% too slow"
    ]


def test_another_machine_is_said(check: ModuleType, monkeypatch, capsys) -> None:
    monkeypatch.setattr(check, "measure", lambda *_: measured(1.5, 2.0, 5.0, 1.0))
    check.main(["--update"])
    monkeypatch.setattr(check, "measure", lambda *_: measured(1.5, 2.0, 5.0, 1.0, cpu="B"))
    assert check.main([]) == 0
    assert "cpu is B, and was A for the committed ratios." in capsys.readouterr().out


@pytest.mark.parametrize("option", [[], ["--update"]])
def test_too_few_rounds_are_refused_before_anything_is_measured(check: ModuleType, option, monkeypatch, capsys) -> None:
    monkeypatch.setattr(check, "measure", lambda *_: pytest.fail("measured for nothing"))
    assert check.main(["--rounds", "3", *option]) == 2
    assert "needs 5 rounds" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", [None, "no json", "[]", "{}", json.dumps({"ratios": {"decode": "fast"}}), '{"ratios": {"decode": 1.5}}']
)
def test_a_missing_or_damaged_file_is_one_sentence_before_anything_is_measured(
    check: ModuleType, content: str | None, capsys, monkeypatch
) -> None:
    if content is not None:
        check.COMMITTED.write_text(content)
    monkeypatch.setattr(check, "measure", lambda *_: pytest.fail("measured for nothing"))
    assert check.main([]) == 2
    assert "missing or damaged: write it anew with make bench-update" in capsys.readouterr().err


def test_other_workloads_than_the_committed_ones_are_no_comparison(check: ModuleType, monkeypatch, capsys) -> None:
    monkeypatch.setattr(check, "measure", lambda *_: measured(1.5, 2.0, 5.0, 1.0))
    check.main(["--update"])
    old = json.loads(check.COMMITTED.read_text())
    del old["ratios"]["single-quick"]
    check.COMMITTED.write_text(json.dumps(old))
    assert check.main([]) == 2
    assert "other ones" in capsys.readouterr().err
