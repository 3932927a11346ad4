"""`KVEventPublisher`: publishes batches of KV events over ZeroMQ, in vLLM's format.

    PUB socket:     [topic, sequence number (8 bytes, big-endian), payload]
    ROUTER socket:  a client sends the number of the first batch that it lacks, and gets [number,
                    payload] for each such batch in the buffer, then [-1, nothing]

One thread owns both sockets and gets batches through an in-process socket, so the engine never
waits. ZeroMQ checks no key, and events contain all users' prompts, so only addresses on this
machine are allowed. A ROUTER socket silently drops messages that do not fit into its queue, so the
queue is as long as the replay buffer.

Source: vLLM `vllm/distributed/kv_events.py`, `ZmqEventPublisher`.
"""

import contextlib
from collections import deque
from collections.abc import Sequence
from threading import Thread
from urllib.parse import urlsplit

import zmq

from minivllm.errors import ConfigError
from minivllm.events.vllm_kv_wire import END_SEQ, KVEvent, KVEventEncoding, encode_batch
from minivllm.server.feeds.kv_options import KVEventsConfig

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NUMBER_BYTES = 8
_STOP = b""
_CLOSE_MILLISECONDS = 2000


class KVEventPublisher:
    def __init__(self, config: KVEventsConfig, encoding: KVEventEncoding = "map") -> None:
        """Bind the sockets. Raises `ConfigError` for an address that is taken or public."""
        self._topic = config.topic.encode()
        self._encoding = encoding
        self._next_seq = 0
        self._buffer: deque[tuple[bytes, bytes]] = deque(maxlen=config.buffer_steps)
        self._context = zmq.Context()
        try:
            self._pub = self._bind(zmq.PUB, config.endpoint, config.hwm)
            self.endpoint: str = self._pub.getsockopt_string(zmq.LAST_ENDPOINT)
            """The bound address, with the port that was chosen for `tcp://127.0.0.1:*`."""
            self._replay = None
            self.replay_endpoint: str | None = None
            if config.replay_endpoint is not None:
                most = config.buffer_steps + 1
                self._replay = self._bind(zmq.ROUTER, config.replay_endpoint, most)
                self.replay_endpoint = self._replay.getsockopt_string(zmq.LAST_ENDPOINT)
        except ConfigError:
            self._context.destroy(linger=0)
            raise
        self._inbox = self._context.socket(zmq.PULL)
        self._inbox.set_hwm(config.max_queue_size)
        self._inbox.bind("inproc://batches")
        # From now on, only the engine's thread may use the outbox; after its end, only `close`.
        self._outbox = self._context.socket(zmq.PUSH)
        self._outbox.set_hwm(config.max_queue_size)
        self._outbox.connect("inproc://batches")
        self._thread = Thread(target=self._run, name="minivllm-kv-events", daemon=True)
        self._thread.start()

    def _bind(self, kind: int, endpoint: str, hwm: int) -> zmq.Socket:
        host = urlsplit(endpoint).hostname
        if not endpoint.startswith(("tcp://", "ipc://")) or (
            endpoint.startswith("tcp://") and host not in _LOOPBACK
        ):
            raise ConfigError(
                "KV events contain the prompts of all users and ZeroMQ has no API key, so"
                f" {endpoint} is refused: publish on this machine only (tcp://127.0.0.1:5557 or"
                " ipc://FILE) and forward that port if needed."
            )
        socket = self._context.socket(kind)
        socket.set_hwm(hwm)
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise ConfigError(
                f"KV events cannot be published on {endpoint}: {error.strerror}."
            ) from error
        return socket

    def publish(self, ts: float, events: Sequence[KVEvent]) -> None:
        """Send a batch with the Unix time `ts`. Called in the engine's thread; never waits."""
        number, self._next_seq = self._next_seq, self._next_seq + 1
        payload = encode_batch(ts, events, self._encoding)
        # If the queue is full, the batch is lost; subscribers notice the missing number.
        with contextlib.suppress(zmq.Again):
            message = number.to_bytes(_NUMBER_BYTES, "big"), payload
            self._outbox.send_multipart(message, zmq.NOBLOCK)

    def close(self) -> None:
        """Send waiting batches and end. Call this in the engine's thread, or after its end."""
        self._outbox.setsockopt(zmq.SNDTIMEO, _CLOSE_MILLISECONDS)  # the queue may be full
        with contextlib.suppress(zmq.Again):
            self._outbox.send_multipart((_STOP, b""))
        self._thread.join(_CLOSE_MILLISECONDS / 1000)
        if not self._thread.is_alive():
            self._context.destroy(linger=200)

    # ---- in the thread ----

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._inbox, zmq.POLLIN)
        if self._replay is not None:
            poller.register(self._replay, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._replay in ready:
                self._answer()
            if self._inbox in ready:
                number, payload = self._inbox.recv_multipart()
                if number == _STOP:
                    return
                self._buffer.append((number, payload))
                self._pub.send_multipart((self._topic, number, payload))

    def _answer(self) -> None:
        """Send a client the batches that it lacks. Malformed messages are ignored."""
        *route, first = self._replay.recv_multipart()
        if len(first) != _NUMBER_BYTES or len(route) != 2 or route[1]:
            return
        for number, payload in self._buffer:
            if number >= first:  # big-endian bytes are in the same order as their numbers
                self._replay.send_multipart((*route, number, payload))
        self._replay.send_multipart((*route, END_SEQ, b""))
