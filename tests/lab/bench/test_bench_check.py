"""`make bench-check`: what counts as a regression, and the message. Nothing is measured here."""

from pathlib import Path
from types import ModuleType

import pytest
from support.tool_modules import load_tool

PATH = Path(__file__).resolve().parents[3] / "tools" / "bench_check.py"
WORKLOADS = ("decode-quick", "ragged-quick", "shared-prefix-quick", "single-quick")
RATIOS = (1.5, 2.0, 5.0, 1.0)


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


@pytest.mark.parametrize(
    ("ratios", "status", "line"),
    [
        (RATIOS, 0, "decode-quick: 1.50 against the committed 1.50 (+0 %), ok"),
        ((1.28, 1.71, 4.26, 0.86), 0, "decode-quick: 1.28 against the committed 1.50 (-15 %), ok"),
        (
            (1.5, 1.6, 9.0, 1.0),
            1,
            "ragged-quick: 1.60 against the committed 2.00 (-20 %), more than 15% too slow",
        ),
    ],
    ids=["the same", "a seventh less", "one too low"],
)
def test_only_a_ratio_that_is_too_low_fails_and_each_is_named_with_its_numbers(
    ratios, status, line, check, monkeypatch, capsys
):
    monkeypatch.setattr(check, "measure", lambda *_: measured(*RATIOS))
    assert check.main(["--update"]) == 0
    monkeypatch.setattr(check, "measure", lambda *_: measured(*ratios))
    assert check.main([]) == status
    lines = capsys.readouterr().out.splitlines()
    assert line in lines and len([one for one in lines if "too slow" in one]) == status
