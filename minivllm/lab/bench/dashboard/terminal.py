"""`DashboardProcess`: the real `minivllm` command in a pseudo-terminal, driven from outside.

It measures the time from the start of the process to its first picture, and the processor time of
the whole process. A terminal's buffer holds only a few kilobytes, and a full buffer would block the
dashboard, so a thread reads the output all the time.
"""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path

from minivllm.clock import MonotonicClock
from minivllm.errors import BenchError

COLUMNS, ROWS = 120, 36
_READ_BYTES = 1 << 16
_KEPT_BYTES = 1 << 18
"""Bytes of output that are kept for `wait_for`: more than a whole screen needs."""


class DashboardProcess:
    """Context manager: runs `minivllm ARGUMENTS` at 120x36 characters until it is closed."""

    def __init__(self, *arguments: str, import_times: bool = False) -> None:
        """import_times: make the interpreter print the name of each module that is imported"""
        self._clock = MonotonicClock()
        self._output = bytearray()
        self._news = threading.Condition()
        self._closed = False
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        options = ["-X", "importtime"] if import_times else []
        self._started = self._clock.now()
        self._process = subprocess.Popen(
            [sys.executable, *options, "-m", "minivllm", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)
        self._master = master
        self._reader = threading.Thread(target=self._read, name="terminal", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, _READ_BYTES)
            except OSError:  # on Linux: the other end is closed
                data = b""
            with self._news:
                self._output += data
                if len(self._output) > _KEPT_BYTES:
                    del self._output[:-_KEPT_BYTES]
                self._closed = not data
                self._news.notify_all()
            if not data:
                return

    def wait_for(self, text: str, seconds: float = 20.0) -> float:
        """Return the seconds from the process's start until `text` appears on the screen.

        Raises `BenchError` if the text does not appear within `seconds`.
        """
        wanted, deadline = text.encode(), self._clock.now() + seconds
        with self._news:
            while wanted not in self._output:
                if self._closed or not self._news.wait(max(deadline - self._clock.now(), 0.0)):
                    raise BenchError(
                        f"The dashboard never showed {text!r}; its output ends with"
                        f" {bytes(self._output[-300:])!r}."
                    )
            return self._clock.now() - self._started

    def forget(self) -> None:
        """Forget the output so far, so that `wait_for` sees only new output."""
        with self._news:
            self._output.clear()

    def press(self, key: str) -> None:
        os.write(self._master, key.encode())

    @property
    def output(self) -> bytes:
        """The newest part of the process's output."""
        with self._news:
            return bytes(self._output)

    def imported_modules(self) -> set[str]:
        """Return the modules imported so far; needs `import_times`."""
        # `import time:  self | cumulative |   name`, indented by the depth of the import.
        lines = (
            line.rpartition(b"|")
            for line in self.output.splitlines()
            if line.startswith(b"import time:")
        )
        return {name.strip().decode(errors="replace") for _, _, name in lines}

    def cpu_seconds(self) -> float:
        """Return the processor time used so far. Raises `BenchError` without /proc."""
        try:
            # The command's name, in parentheses, may contain any character.
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError as error:
            raise BenchError(
                "Processor time of another process is read from /proc: run this bench on Linux."
            ) from error
        user, system = int(fields[11]), int(fields[12])
        return (user + system) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """Quit with the q key, or kill the process if that does not help."""
        if self._process.poll() is None:
            self.press("q")
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(5)
        os.close(self._master)

    def __enter__(self) -> "DashboardProcess":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
