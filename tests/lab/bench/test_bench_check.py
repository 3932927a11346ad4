"""`make bench-check`: what counts as a regression, and what is said. Nothing is measured here."""

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


def test_what_was_written_passes_and_a_seventh_less_passes_too(
    check: ModuleType, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(check, "measure", lambda *_: measured(1.5, 2.0, 5.0, 1.0))
    assert check.main(["--update"]) == 0
    assert check.main([]) == 0
    monkeypatch.setattr(check, "measure", lambda *_: measured(1.28, 1.71, 4.26, 0.86))
    assert check.main([]) == 0
    assert "decode-quick: 1.28 against the committed 1.50 (-15 %), ok" in capsys.readouterr().out


def test_the_committed_ratios_are_there_for_every_workload(check: ModuleType) -> None:
    committed = check.read_committed(PATH.parent / "bench_ratios.json")
    assert set(committed["ratios"]) == set(WORKLOADS)


def test_one_ratio_that_is_too_low_fails_and_is_named_with_its_numbers(
    check: ModuleType, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(check, "measure", lambda *_: measured(1.5, 2.0, 5.0, 1.0))
    check.main(["--update"])
    monkeypatch.setattr(check, "measure", lambda *_: measured(1.5, 1.6, 9.0, 1.0))
    assert check.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "too slow" in line] == [
        "ragged-quick: 1.60 against the committed 2.00 (-20 %), more than 15% too slow"
    ]
