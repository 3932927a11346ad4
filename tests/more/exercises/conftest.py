"""Fixtures for exercise tests: their own home folder, and submissions from the engine's source."""

from collections.abc import Callable
from pathlib import Path

import pytest
from exercises.conftest import home

from minivllm.lessons.checker.catalogue import find_exercise

EVICTS_WHEN_FREED = """
def my_release(self, block):
    if block.ref_cnt < 1:
        raise BlockPoolError("nobody has it")
    block.ref_cnt = block.ref_cnt - 1
    if not block.ref_cnt:
        named = block.block_hash
        if named:
            self.evict(block)
        self._put_back(block)
BlockPool.release = my_release
"""
"""A known mistake of block-pool, in other code."""


@pytest.fixture
def submit(tmp_path: Path) -> Callable[[str], Path]:
    """Make a submission to block-pool: the engine's own source plus some lines."""

    def make(lines: str = "") -> Path:
        file = tmp_path / "block_pool.py"
        file.write_text(f"{find_exercise('block-pool').source}\n\n{lines}\n", encoding="utf-8")
        return file

    return make
