"""A machine that cannot make the GPU report is refused in one sentence, before anything is written."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
import triton

from minivllm.kernels.mode import INTERPRETED  # noqa: F401  (imports Triton as this machine can run it)

GIB = 1 << 30


@pytest.fixture
def good_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as torch says, there is an H100 with room."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (79 * GIB, 80 * GIB))


@pytest.fixture
def refused(tool: Callable[[str], ModuleType], tmp_path: Path, capsys) -> Callable[[], str]:
    """Runs the report, which must refuse; the sentence."""

    def run() -> str:
        assert tool("__main__").main(["kernels", "--out", str(tmp_path / "report")]) == 2
        assert not (tmp_path / "report").exists()
        sentence = capsys.readouterr().err
        assert sentence.count("\n") == 1 and sentence.endswith(".\n")
        return sentence

    return run


@pytest.mark.usefixtures("good_device")
def test_a_good_device_is_not_refused(tool) -> None:
    assert tool("machine").refusal() is None


def test_a_machine_without_a_device_is_refused(refused, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "no CUDA device" in refused()


@pytest.mark.usefixtures("good_device")
def test_a_device_with_little_free_memory_is_refused_with_both_numbers(refused, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(7.5 * GIB), 80 * GIB))
    sentence = refused()
    assert "7.5 GiB" in sentence and "8 GiB" in sentence


@pytest.mark.usefixtures("good_device")
def test_a_triton_that_pyproject_does_not_allow_is_refused(refused, monkeypatch) -> None:
    monkeypatch.setattr(triton, "__version__", "3.5.1")
    sentence = refused()
    assert "3.5.1" in sentence and ">=3.6" in sentence
