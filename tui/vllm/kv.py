"""`KVEventReader`: a thread that subscribes to a vLLM engine's KV events.

A gap in the batch numbers means that batches were lost or the engine was restarted; `vllm_view`
decides which. Both wire encodings are supported (`minivllm.events.vllm_kv_wire`). ZeroMQ does not
report connections, so a dead server looks like a silent server.
"""

from collections import deque
from threading import Event, Thread
from typing import NamedTuple

from minivllm.errors import ConfigError, EventLogError
from minivllm.events.vllm_kv_wire import KVEventBatch, decode_batch
from minivllm.tui.sources.source import SourceStatus

LOOK_MILLISECONDS = 100
"""Maximum time until the thread notices that it should end."""
MOST_BYTES = 1 << 26
MOST_WAITING = 10_000


class Numbered(NamedTuple):
    number: int
    batch: KVEventBatch


class KVEventReader:
    """Pop from `batches`, oldest first."""

    def __init__(self, endpoint: str) -> None:
        """Raises `ConfigError` for an invalid address, or without pyzmq."""
        try:
            import zmq
        except ImportError as error:
            raise ConfigError(
                "To read KV events, install pyzmq: pip install 'minivllm[kv-events]'."
            ) from error
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        try:
            self._socket.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES)
            self._socket.setsockopt_string(zmq.SUBSCRIBE, "")
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            raise ConfigError(
                f"{endpoint} is not the address of a KV event publisher ({error.strerror}):"
                " write it like tcp://localhost:5557."
            ) from error
        # If nothing pops the batches, the oldest are dropped, which leaves a gap in the numbers.
        self.batches: deque[Numbered] = deque(maxlen=MOST_WAITING)
        self.status = SourceStatus("lost", f"No KV event has arrived from {endpoint} yet.")
        self._endpoint = endpoint
        self._closing = Event()
        self._thread = Thread(target=self._run, name="minivllm-vllm-kv-events", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(timeout=1.0)
        if not self._thread.is_alive():
            self._context.destroy(linger=0)

    # ---- in the thread ----

    def _run(self) -> None:
        while not self._closing.is_set():
            if self._socket.poll(LOOK_MILLISECONDS):
                self._take()

    def _take(self) -> None:
        frames = self._socket.recv_multipart()
        try:
            if len(frames) != 3 or len(frames[1]) != 8:
                raise EventLogError(
                    "it sent a message that is not a batch of KV events (it has other frames)."
                )
            self.batches.append(Numbered(int.from_bytes(frames[1], "big"), decode_batch(frames[2])))
            self.status = SourceStatus("live")
        except EventLogError as error:
            self.status = SourceStatus("lost", f"{self._endpoint}: {error}")
