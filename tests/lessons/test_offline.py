"""The lesson command in an empty home and without a network: it needs no download."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minivllm.lessons.course.library import lessons

QUICK = (1, 4)
"""Lessons that run in a few seconds."""


def _print_lesson(number: int, home: Path) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MINIVLLM_")}
    return subprocess.run(
        [sys.executable, "-m", "minivllm", "lesson", str(number), "--auto", "--plain"],
        env={**clean, "HOME": str(home), "XDG_CACHE_HOME": str(home), "HF_HUB_OFFLINE": "1"},
        cwd=home,
        capture_output=True,
        encoding="utf-8",
    )


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(one.number, marks=() if one.number in QUICK else pytest.mark.slow)
        for one in lessons()
    ],
)
def test_a_lesson_is_readable_to_its_end_with_an_empty_home_and_no_network(number, tmp_path):
    printed = _print_lesson(number, tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert "This is the end of" in printed.stdout
    assert "\N{REPLACEMENT CHARACTER}" not in printed.stdout
    assert "model fetch" not in printed.stderr, "nothing to download"
