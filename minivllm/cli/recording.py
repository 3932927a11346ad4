"""`--record FILE`, for all commands that write a recording, and a guard for those that read one.

"Recorded up to step N" is printed only if the file is complete; otherwise the command fails at the
end.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from minivllm.cli import Parser
from minivllm.cli.terminal import note
from minivllm.errors import ConfigError
from minivllm.events.bus import Listener
from minivllm.events.recording.log import LogWriter
from minivllm.events.types import LogHeader

Record = Callable[[LogHeader, Callable[[Listener], object]], LogWriter | None]
"""Takes an engine's header and its `subscribe`; from then on, its events are recorded."""


def add_record_option(parser: Parser) -> None:
    parser.add("--record FILE", "write every event into FILE (JSON Lines)")


def check_output(output: str, recordings: Iterable[str | None]) -> None:
    """Raise `ConfigError` if a command would overwrite a recording, which cannot be made again."""
    path, logs = Path(output), [log for log in recordings if log and Path(log).exists()]
    if path.exists() and any(map(path.samefile, logs)):
        raise ConfigError(f"{output} is the recording itself: name another file.")


@contextmanager
def recording(path: str | None) -> Iterator[Record]:
    """Give a function that records an engine into `path`, until the context ends, if there is a path.

    Raises `OSError` at once if the file cannot be written. If it is incomplete at the end, raises
    `EventLogError`, or adds its message as a note to an error that is already being raised.
    """
    if path is not None:
        open(path, "ab").close()
    with ExitStack() as files:

        def record(header: LogHeader, subscribe: Callable[[Listener], object]) -> LogWriter | None:
            if path is None:
                return None
            writer = LogWriter(path, header)
            files.callback(_say_where, writer, path)
            subscribe(files.enter_context(writer).write)
            return writer

        yield record


def _say_where(writer: LogWriter, path: str) -> None:
    if writer.is_whole:
        opens = f"minivllm replay {shlex.quote(path)} opens it."
        note(f"Recorded up to step {writer.last_step} in {path}: {opens}")
