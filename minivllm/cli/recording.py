"""`--record FILE`: what the commands that write a recording share.

One promise: "Recorded up to step N" is printed only when the file has all of it. Otherwise the
command fails, after everything else that it has to say, with the writer's own sentence about what
is missing.
"""

import argparse
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from minivllm.cli.terminal import note
from minivllm.events.bus import Listener
from minivllm.events.recording.log import LogWriter
from minivllm.events.types import LogHeader


def add_record_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", metavar="FILE", help="write every event into FILE (JSON Lines)")


def check_record(path: str | None) -> None:
    """Raise `OSError` for a file that cannot be written; call it before anything is loaded."""
    if path is not None:
        open(path, "ab").close()


@contextmanager
def recording(
    path: str | None, header: LogHeader, subscribe: Callable[[Listener], object]
) -> Iterator[LogWriter | None]:
    """Write every event into `path` until the context is left; nothing without a path.

    Raises `EventLogError` on leaving if the file lacks anything. If another error is on its way,
    that one goes on and carries the sentence as a note.
    """
    if path is None:
        yield None
        return
    writer = LogWriter(path, header)
    try:
        with writer:
            subscribe(writer.write)
            yield writer
    finally:
        if writer.is_whole:
            note(
                f"Recorded up to step {writer.last_step} in {path}: minivllm replay"
                f" {shlex.quote(path)} opens it."
            )
