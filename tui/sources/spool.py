"""`Spool`: an unnamed temporary file that keeps the lines of a stream, for a recording to read.

A stream goes by once; time travel needs it again. The file has no name, so it is gone with the
process, however that ends. On a full disk a write may store half a line, which would damage all
after it, so a write that does not fit is taken back.
"""

import tempfile

from minivllm.errors import EventLogError


class Spool:
    """Append with `write`; `file` may be read and seeked in meanwhile, in the same thread."""

    def __init__(self) -> None:
        # Unbuffered: a recording reads what has just been written.
        self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by close()
        self.size = 0

    def write(self, data: bytes) -> None:
        """Raises `EventLogError`, with the file as before, if there is no room."""
        try:
            self.file.seek(self.size)
            if self.file.write(data) < len(data):
                raise OSError("the disk is full")
        except OSError as error:
            self.file.truncate(self.size)
            raise EventLogError(
                f"The temporary file that keeps the events cannot grow: {error.strerror or error}."
            ) from error
        self.size += len(data)

    def close(self) -> None:
        self.file.close()
