"""Fixtures for exercise tests: their own home folder, and submissions from the engine's source."""

from collections.abc import Callable
from pathlib import Path

import pytest
from exercises.conftest import home

from minivllm.lessons.checker.catalogue import find_exercise


@pytest.fixture
def submit(tmp_path: Path) -> Callable[[str], Path]:
    """Make a submission to block-pool: the engine's own source plus some lines."""

    def make(lines: str = "") -> Path:
        file = tmp_path / "block_pool.py"
        file.write_text(f"{find_exercise('block-pool').source}\n\n{lines}\n", encoding="utf-8")
        return file

    return make
