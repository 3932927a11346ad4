"""A fence around a student's code: it writes only to its scratch folder, and ends only itself.

Two layers. An audit hook sees on every system what Python code is about to do. It refuses, and
keeps the path for the verdict, even if the code catches the error. Python reports only ordinary
calls to a hook: not `os.open` with `dir_fd`, `os.mkfifo`, `os.mknod`, `signal.pidfd_send_signal`,
and not what other programs and C modules do. So on Linux 5.13 and later Landlock makes the kernel
refuse those, too.

Landlock needs no root and no installation (https://docs.kernel.org/userspace-api/landlock.html).
Later kernels also refuse to empty a file (6.2), TCP connections (6.7) and signals to other
processes (6.12). It does not cover `chmod` by another program.
"""

import os
import struct
import sys
from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_NAMES = {
    "os.remove": [(0, 1)],
    "os.rmdir": [(0, 1)],
    "os.mkdir": [(0, 2)],
    "os.rename": [(0, 2), (1, 3)],
    "os.link": [(1, 3)],
    "os.symlink": [(1, 2)],
}
"""Event -> the arguments that are a path, each with its `dir_fd`. A link itself is not followed."""
_CONTENTS = {
    "os.chmod": (0, 2),
    "os.chown": (0, 3),
    "os.utime": (0, 3),
    "os.link": (0, 2),
    "shutil.rmtree": (0, 1),
    "os.truncate": (0, None),
    "os.chflags": (0, None),
    "os.setxattr": (0, None),
    "os.removexattr": (0, None),
}
"""The same for the paths whose links are followed."""
_SIGNALS = ("os.kill", "os.killpg")
_EVENTS = {"open", "sqlite3.connect", *_NAMES, *_CONTENTS, *_SIGNALS}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ALWAYS_OPEN = (os.devnull,)


class Fence:
    def __init__(self, folder: str, files: Collection[str] = ()) -> None:
        """Fence in this process and its children, for ever.

        folder: the only place to write to
        files: the student's files, to name the line that tries to write elsewhere
        """
        self._folder = os.path.realpath(folder)
        self._files = files
        self._attempt = ""
        lock_writes_to(self._folder)  # without it, a file is checked all the same
        sys.addaudithook(self._look)

    @property
    def failure(self) -> dict[str, str] | None:
        """The first attempt to leave the folder, as the fields of a `Failure`."""
        return {"kind": "outside", "text": self._attempt} if self._attempt else None

    def _look(self, event: str, args: tuple) -> None:
        if event not in _EVENTS:  # first, because imports alone cause thousands of events
            return
        if event == "open":
            if args[2] & _WRITING and not isinstance(args[0], int):
                self._require_inside(os.path.realpath(args[0]))
        elif event == "sqlite3.connect":
            if database := _file_of_database(os.fsdecode(args[0])):
                self._require_inside(os.path.realpath(database))
        elif event in _SIGNALS:
            if not _is_ours(args[0], is_group=event == "os.killpg"):
                self._refuse("it tried to send a signal to another process")
        else:
            self._look_at_paths(event, args)

    def _look_at_paths(self, event: str, args: tuple) -> None:
        for path, folder in _NAMES.get(event, ()):
            self._require_inside(_without_following(_absolute(args[path], args[folder])))
        if event in _CONTENTS:
            path, folder = _CONTENTS[event]
            if isinstance(args[path], int):
                full = _path_of(args[path])
                if not full.startswith(os.sep) or full.startswith("/memfd:"):
                    return  # a pipe, a socket or memory
            else:
                full = _absolute(args[path], None if folder is None else args[folder])
            self._require_inside(os.path.realpath(full))

    def _require_inside(self, path: str | bytes) -> None:
        path = os.fsdecode(path)
        if not (path + os.sep).startswith(self._folder + os.sep) and path not in _ALWAYS_OPEN:
            self._refuse(f"it tried to write outside its folder: {path}")

    def _refuse(self, text: str) -> None:
        if not self._attempt:
            frame = sys._getframe()
            while frame is not None and frame.f_code.co_filename not in self._files:
                frame = frame.f_back
            self._attempt = text if frame is None else f"{text} in line {frame.f_lineno}"
        raise PermissionError(self._attempt)


def _absolute(path: str | bytes | os.PathLike, folder: int | None) -> str:
    """A path as a call with this `dir_fd` reads it; an event has -1 or None in place of none."""
    path = os.fsdecode(path)
    if folder in (None, -1) or os.path.isabs(path):
        return path
    return os.path.join(_path_of(folder), path)


def _path_of(number: int) -> str:
    """The path of an open file or folder. Raises `OSError`, so the call fails, if it has none."""
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(number, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{number}")


def _without_following(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _file_of_database(name: str) -> str:
    """The file of a database of sqlite, which can be a URI; empty for one in memory."""
    if name.startswith("file:"):
        from urllib.parse import unquote

        name = unquote(name.removeprefix("file:").partition("?")[0])
    return "" if name == ":memory:" else name


def _is_ours(number: int, is_group: bool) -> bool:
    """Whether a process or group belongs to the session that the checker started.

    A group outlives its leader, and then nothing says which session it belongs to.
    """
    try:
        return number >= 0 and os.getsid(number) == os.getsid(0)
    except ProcessLookupError:
        return not is_group or number == os.getpgrp()


# ---- Landlock ----

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every processor
_VERSION_ONLY = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38

_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_TCP = 0b11
_SIGNALS_AND_SOCKETS = 0b11


@cache
def landlock_version() -> int:
    """Version of the kernel's Landlock; 0 without it. A process may still fail to lock itself."""
    if sys.platform != "linux":
        return 0
    try:
        return max(_call(_CREATE_RULESET, None, 0, _VERSION_ONLY), 0)
    except OSError:
        return 0


def lock_writes_to(folder: str) -> bool:
    """Let the kernel refuse writes of this process elsewhere, for ever. Returns whether it does.

    A kernel without Landlock does not, and a container can forbid it.
    """
    version = landlock_version()
    if version == 0:
        return False
    try:
        _lock(folder, version)
    except OSError:
        return False
    return True


def _lock(folder: str, version: int) -> None:
    writes = _WRITE_FILE | _REMOVE_AND_MAKE
    writes |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    fields = [writes]
    if version >= 4:
        fields.append(_TCP)
    if version >= 6:
        fields.append(_SIGNALS_AND_SOCKETS)
    handled = struct.pack(f"{len(fields)}Q", *fields)
    rules = _call(_CREATE_RULESET, handled, len(handled), 0)
    try:
        _allow(rules, folder, writes)
        for device in _ALWAYS_OPEN:
            _allow(rules, device, writes & (_WRITE_FILE | _TRUNCATE))
        _checked(_libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _call(_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: str, writes: int) -> None:
    place = os.open(path, os.O_PATH)
    try:
        _call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", writes, place), 0)
    finally:
        os.close(place)


def _call(number: int, *args: int | bytes | None) -> int:
    import ctypes

    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in args]
    return _checked(_libc().syscall(ctypes.c_long(number), *words))


def _checked(result: int) -> int:
    import ctypes

    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


@cache
def _libc() -> "ctypes.CDLL":
    import ctypes  # not above: the site's playground imports this file, too

    return ctypes.CDLL(None, use_errno=True)
