"""`--record FILE`, for all commands that write a recording.

"Recorded up to step N" is printed only if the file is complete. Otherwise the command fails at its
end with the writer's message about what is missing.
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
    """Raise `OSError` if the file cannot be written; call it before anything is loaded."""
    if path is not None:
        open(path, "ab").close()


@contextmanager
def recording(
    path: str | None, header: LogHeader, subscribe: Callable[[Listener], object]
) -> Iterator[LogWriter | None]:
    """Write every event to `path` inside the context; do nothing without a path.

    Raises `EventLogError` at the end if the file is incomplete. Another error that is being raised
    continues, with the message as a note.
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
