"""A home folder of their own for the tests of exercises."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the developer's own progress and workspace untouched."""
    monkeypatch.setenv("MINIVLLM_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setenv("MINIVLLM_EXERCISES", str(tmp_path / "workspace"))
    return tmp_path
