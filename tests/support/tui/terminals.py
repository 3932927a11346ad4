"""Runs a program in its own pseudo-terminal: reads its output, sends keys, checks its exit.

It is not a screen: escape sequences are removed, and the text stays in the order of painting. That
is enough to wait for words, because a panel paints whole rows.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from support.patience import SOON

_ESCAPES = re.compile(
    rb"\x1b(?:\[[0-9:;<=>?]*[ -/]*[@-~]|[\]P].*?(?:\x07|\x1b\\)|[()][0-9A-Z]|[=>78c])", re.DOTALL
)
_MODE = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
_RESTORED = {1049: b"l", 25: b"h", 1004: b"l", 2004: b"l"}
_RESTORED |= dict.fromkeys((1000, 1002, 1003, 1006, 1015), b"l")
"""Each terminal mode as a shell needs it: the main screen, a cursor, no reports of focus, no marked
pastes, and five modes without a mouse. Modes that the program never used do not count."""


class Program:
    def __init__(
        self, *command: str | Path, size: tuple[int, int] = (120, 36), **environment: str
    ) -> None:
        """environment: further variables for the program"""
        self._ours, self._its = pty.openpty()
        self._ends = [self._ours, self._its]
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self._stty_before = termios.tcgetattr(self._its)
        inherited = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm-256color"}
        for name in ("COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "TEXTUAL_DRIVER"):
            inherited.pop(name, None)
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=self._its, stdout=self._its, stderr=self._its,
            env=inherited | environment, preexec_fn=lambda: os.login_tty(0),
        )  # fmt: skip
        self.written = b""
        self._looked_at = 0

    @classmethod
    def minivllm(cls, *arguments: str | Path, **environment: str) -> "Program":
        return cls(sys.executable, "-m", "minivllm", *arguments, **environment)

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for end in self._ends:
            os.close(end)

    def hang_up(self) -> None:
        """Close the terminal, as the close button of a window does."""
        while self._ends:
            os.close(self._ends.pop())

    def press(self, keys: bytes) -> None:
        """Send keys; the next `wait_for` sees only what is painted from now on."""
        self._read(0.0)
        self._looked_at = len(self.written)
        os.write(self._ours, keys)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until the text painted since the last key matches."""
        deadline = time.monotonic() + SOON
        while True:
            found = re.search(pattern, self._painted())
            if found is not None:
                return found
            shown = self._painted()[-3000:]
            assert self.process.poll() is None, f"ended before {pattern!r}: {shown}"
            assert time.monotonic() < deadline, f"{pattern!r} did not come: {shown}"
            self._read(0.1)

    def wait_for_end(self) -> int:
        """Return the exit status; `written` then holds the whole output."""
        deadline = time.monotonic() + SOON
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end: {self._painted()[-3000:]}"
            self._read(0.05)
        self._read(0.0)
        return self.process.returncode

    def check_it_is_restored(self) -> None:
        """Check that the terminal's modes and line discipline are as before."""
        found = _MODE.findall(self.written)
        last = {int(mode): which for modes, which in found for mode in modes.split(b";")}
        assert last.get(1049) == b"l", "it never was on the alternate screen, or is still there"
        assert {mode: last[mode] for mode in _RESTORED if mode in last}.items() <= _RESTORED.items()
        assert termios.tcgetattr(self._its) == self._stty_before

    def after_the_screen(self) -> str:
        """The text in the terminal after the dashboard has gone."""
        return _plain(self.written.rpartition(b"\x1b[?1049l")[2])

    def num_unread_keys(self) -> int:
        """How many bytes the next program in this terminal would read."""
        return struct.unpack("i", fcntl.ioctl(self._its, termios.FIONREAD, b"\0" * 4))[0]

    def _painted(self) -> str:
        return _plain(self.written[self._looked_at :])

    def _read(self, seconds: float) -> None:
        while select.select([self._ours], [], [], seconds)[0]:
            self.written += os.read(self._ours, 65536)
            seconds = 0.0


def _plain(data: bytes) -> str:
    return _ESCAPES.sub(b"", data).decode("utf-8", "replace")
