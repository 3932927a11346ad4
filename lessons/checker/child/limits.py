"""The limits that a child process takes before it loads the code of a student."""

import os
import resource
import signal
import sys

from minivllm.lessons.checker.child.student import MAX_FILE_BYTES, TimeIsUpError

MAX_FORKS = 5
"""Processes that one process may start, with those that its ancestors had started before."""


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


def limit_forks() -> None:
    """Let each process of the code start few others: at most 2 ** `MAX_FORKS` in all, for root too.

    There is no way to remove an audit hook.
    """
    num_started = 0

    def count(event: str, _: object) -> None:
        nonlocal num_started
        if event in ("os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"):
            num_started += 1
            if num_started > MAX_FORKS:
                raise BlockingIOError(f"a submission may start at most {MAX_FORKS} processes")

    sys.addaudithook(count)


def _time_is_up(*_: object) -> None:
    raise TimeIsUpError
