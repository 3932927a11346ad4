"""`Spool`: an unnamed temporary file that keeps a stream's lines, for a recording to read.

The file disappears with the process.
"""

import tempfile

from minivllm.errors import EventLogError


class Spool:
    """The thread that writes may also read and seek `file` between two writes."""

    def __init__(self) -> None:
        # Unbuffered, so that a recording can read each line as soon as it is written.
        self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by close()
        self.size = 0

    def write(self, data: bytes) -> None:
        """Append `data`. If the disk is full, raise `EventLogError`.

        The file then gets its old size back: half a line would damage all later lines.
        """
        try:
            self.file.seek(self.size)
            if self.file.write(data) < len(data):
                raise OSError("the disk is full")
        except OSError as error:
            self.file.truncate(self.size)
            raise EventLogError(
                f"The temporary file for the events cannot grow: {error.strerror or error}."
            ) from error
        self.size += len(data)

    def close(self) -> None:
        self.file.close()
