"""The limits that a child process takes before it loads the code of a student."""

import errno
import os
import resource
import signal
import sys

from minivllm.lessons.checker.child.student import MAX_FILE_BYTES, TimeIsUpError

MAX_FORKS = 5
"""Processes that one process may start, with those that its ancestors had started before."""


_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.truncate")


def take_limits(memory_mb: int) -> None:
    """Limit memory, files and output; let the timer `ITIMER_PROF` raise `TimeIsUpError`.

    What the code prints goes to output.txt in the working directory.
    """
    # On Linux, limit private memory and not the address space, which includes libraries.
    memory = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    resource.setrlimit(memory, (memory_mb << 20, memory_mb << 20))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGPROF, _time_is_up)


def limit_forks_and_writes() -> None:
    """Let each process of the code start few others: at most 2 ** `MAX_FORKS` in all, for root too.
    Let it change files only in its working directory.

    There is no way to remove an audit hook. It sees what Python calls, so it stops mistakes; only
    `walls` stops machine code and other programs.
    """
    num_started = 0
    own = os.path.realpath(os.getcwd()) + os.sep

    def watch(event: str, args: tuple) -> None:
        nonlocal num_started
        if event in ("os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"):
            num_started += 1
            if num_started > MAX_FORKS:
                raise BlockingIOError(f"a submission may start at most {MAX_FORKS} processes")
        elif event in _CHANGES or (event == "open" and args[2] & _WRITES):
            for path in args[: 2 if event == "os.rename" else 1]:
                _refuse_outside(own, path)

    sys.addaudithook(watch)


def _refuse_outside(own: str, path: object) -> None:
    if isinstance(path, str | bytes | os.PathLike):  # not the number of an open file
        place = os.path.realpath(os.fsdecode(path))
        if not place.startswith((own, "/dev/")):
            raise PermissionError(
                errno.EACCES, f"a submission may change files only in its own folder, not {place}"
            )


def _time_is_up(*_: object) -> None:
    raise TimeIsUpError
