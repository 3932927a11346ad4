"""`exercise check --watch` in a terminal: it checks each save, takes keys and exits."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.patience import SOON

from minivllm.cli import main
from minivllm.lessons.checker.catalogue import find_exercise

SOURCE = find_exercise("block-pool").source_file.read_text(encoding="utf-8")


class Watching:
    def __init__(self) -> None:
        self._ours, theirs = os.openpty()
        command = [sys.executable, "-m", "minivllm", "exercise", "check", "block-pool", "--watch"]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.told = ""

    def press(self, key: str) -> None:
        os.write(self._ours, key.encode())

    def read_until(self, words: str, times: int = 1) -> None:
        """Wait until the words have been printed this often."""
        deadline = time.monotonic() + SOON
        while self.told.count(words) < times:
            ready = select.select([self._ours], [], [], max(deadline - time.monotonic(), 0))[0]
            assert ready, self.told
            self.told += os.read(self._ours, 1 << 16).decode()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture
def watching(home: Path) -> Iterator[Watching]:
    assert main(["exercise", "start", "block-pool"]) == 0
    watching = Watching()
    yield watching
    watching.close()


def test_a_save_is_checked_keys_work_and_the_exit_status_is_the_last_result(watching, home):
    watching.read_until("q quit")
    assert "This failure is expected" in watching.told
    watching.press("hl")  # faster than it looks: the second is not lost
    watching.read_until("Hint 1 of 3")
    watching.read_until("begun")
    (home / "workspace" / "block-pool" / "block_pool.py").write_text(SOURCE)
    watching.read_until("q quit", times=2)
    assert "7 of 7 checks" in watching.told
    watching.press("q")
    assert watching.process.wait(SOON) == 0
    assert watching.told.count("checks passed in") == 2
