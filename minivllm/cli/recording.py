"""`--record FILE`, for all commands that write a recording, and a guard for those that read one.

"Recorded up to step N" is printed only if the file is complete; otherwise the command fails at the
end.
"""

import argparse
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from minivllm.cli import add_option
from minivllm.cli.terminal import note
from minivllm.errors import ConfigError
from minivllm.events.bus import Listener
from minivllm.events.recording.log import LogWriter
from minivllm.events.types import LogHeader


def add_record_option(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--record FILE", "write every event into FILE (JSON Lines)")


def check_record(path: str | None) -> None:
    """Raise `OSError` if the file cannot be written. Call this before loading anything."""
    if path is not None:
        open(path, "ab").close()


def check_output(output: str, recordings: Iterable[str | None]) -> None:
    """Raise `ConfigError` if a command would overwrite a recording, which cannot be made again."""
    path = Path(output)
    if any(
        log and path.exists() and Path(log).exists() and path.samefile(log) for log in recordings
    ):
        raise ConfigError(f"{output} is the recording itself: name another file.")


@contextmanager
def recording(
    path: str | None, header: LogHeader, subscribe: Callable[[Listener], object]
) -> Iterator[LogWriter | None]:
    """Inside the context, write every event to `path`; do nothing without a path.

    If the file is incomplete at the end, raises `EventLogError`, or adds its message as a note to
    an error that is already being raised.
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
