"""Drives a Firefox without a window, over Marionette: Firefox's own protocol of JSON over TCP."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support.patience import SOON

HOME, END, RIGHT = "\ue011", "\ue010", "\ue014"
"""Keys that are no characters, as WebDriver writes them."""


def find_firefox() -> str | None:
    """The browser of MINIVLLM_FIREFOX, or else the first one on PATH."""
    names = [os.environ.get("MINIVLLM_FIREFOX"), "firefox-esr", "firefox"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


class Firefox:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")
        self._number = 0
        self._read()  # its greeting
        self.ask("WebDriver:NewSession", {})

    def ask(self, command: str, parameters: dict) -> Any:
        self._number += 1
        message = json.dumps([0, self._number, command, parameters]).encode()
        self._connection.sendall(b"%d:%b" % (len(message), message))
        _, _, error, result = self._read()
        assert error is None, (command, error)
        return result.get("value") if isinstance(result, dict) else result

    def open(self, address: str) -> None:
        self.ask("WebDriver:Navigate", {"url": address})

    def run(self, script: str) -> Any:
        """Return the value of one expression of JavaScript."""
        return self.ask("WebDriver:ExecuteScript", {"script": f"return {script}", "args": []})

    def wait_for(self, script: str) -> None:
        deadline = time.monotonic() + SOON
        while not self.run(script):
            assert time.monotonic() < deadline, f"{script}: still not true"
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """Press a key as a person does. key: one character, of WebDriver's table for others"""
        keys = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        source = {"type": "key", "id": "keyboard", "actions": keys}
        self.ask("WebDriver:PerformActions", {"actions": [source]})

    def _read(self) -> list:
        size = b""
        while (byte := self._file.read(1)) != b":":
            assert byte, "Firefox has ended"
            size += byte
        return json.loads(self._file.read(int(size)))


@contextmanager
def firefox(**preferences: bool | int | str) -> Iterator[Firefox]:
    """A Firefox with a fresh profile. preferences: names have `__` for a dot"""
    with tempfile.TemporaryDirectory() as profile:
        set_too = {"marionette.port": 0, "browser.shell.checkDefaultBrowser": False}
        named = {name.replace("__", "."): value for name, value in preferences.items()}
        lines = [
            f"user_pref({json.dumps(name)}, {json.dumps(value)});\n"
            for name, value in (set_too | named).items()
        ]
        Path(profile, "user.js").write_text("".join(lines))
        command = [find_firefox(), "--headless", "--marionette", "--profile", profile]
        environment = os.environ | {"HOME": profile}
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            with socket.create_connection(("127.0.0.1", _port(Path(profile)))) as connection:
                connection.settimeout(SOON)
                yield Firefox(connection)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def _port(profile: Path) -> int:
    """Firefox writes the port that it has chosen into its profile."""
    file, deadline = profile / "MarionetteActivePort", time.monotonic() + SOON
    while not file.exists() or not file.read_text().strip():
        assert time.monotonic() < deadline, "Firefox does not start"
        time.sleep(0.05)
    return int(file.read_text())
