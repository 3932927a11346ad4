"""Blocks over a socket: `listen` for the engine that has them, `RemoteFetch` for the other one.

    D  Question   what its KV cache is like, and the hashes of the blocks that it lacks
    P  Answer     a refusal, the blocks, a digest of hashes and blocks
    D  one byte   the digest is right: the lease may end

A message comes after its length, and a longer one than expected is not read. If anything is wrong,
or takes as long as a lease, the decoder gets nothing. vLLM sends the bytes with NIXL.
"""

from contextlib import suppress
from hashlib import sha256
from socket import create_connection, socket
from socketserver import ThreadingTCPServer
from threading import Thread
from time import monotonic
from typing import Any, BinaryIO
from weakref import ref

import msgspec

from minivllm.core.block_pool import BlockHash
from minivllm.errors import ConfigError
from minivllm.kv_transfer.consumer import Fetch
from minivllm.kv_transfer.producer import KVProducer

Facts = dict[str, str]  # what both engines must have in common
Question = tuple[Facts, list[BlockHash]]
Answer = tuple[str, list[bytes], bytes]
WRONG = (OSError, ValueError, msgspec.MsgspecError)


def send(stream: BinaryIO, message: Question | Answer) -> None:
    packed = msgspec.msgpack.encode(message)
    stream.write(len(packed).to_bytes(8) + packed)
    stream.flush()


def receive(stream: BinaryIO, kind: Any, limit: int) -> Any:
    length = int.from_bytes(stream.read(8))
    if length > limit:
        raise ValueError(length)
    return msgspec.msgpack.decode(stream.read(length), type=kind)


def digest(hashes: list[BlockHash], blocks: list[bytes]) -> bytes:
    return sha256(b"".join([*hashes, *blocks])).digest()


def answer(stream: BinaryIO, producer: KVProducer, facts: Facts) -> None:
    """Answer the one question of a connection."""
    theirs, hashes = receive(stream, Question, 1 << 20)  # thirty thousand hashes
    for name, own in facts.items():
        if (other := theirs.get(name)) != own:
            differ = f"the producer has {name} {own}, and the consumer {other}"
            send(stream, (f"{differ}: both need the same.", [], b""))
            return
    lease, blocks = producer.read(hashes)
    send(stream, ("", blocks, digest(hashes, blocks)))
    if stream.read(1):
        producer.read_leases.append(lease)


class _Server(ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


def listen(
    producer: KVProducer, address: tuple[str, int], facts: Facts, timeout: float
) -> ThreadingTCPServer:
    """Answer questions in threads. Raises `ConfigError` if the address cannot be used."""
    producer = ref(producer)  # an engine that is dropped is freed

    def serve(connection: socket, *_: object) -> None:
        connection.settimeout(timeout)
        with suppress(*WRONG, AttributeError), connection.makefile("rwb") as stream:
            answer(stream, producer(), facts)

    try:
        server = _Server(address, serve)
    except OSError as error:
        what = f"side_channel_host and side_channel_port {address}: {error}"
        raise ConfigError(f"kv_connector_extra_config: {what}.") from None
    Thread(target=server.serve_forever, name="minivllm-kv-transfer", daemon=True).start()
    return server


class RemoteFetch(Fetch):
    """Blocks of another process. They come in a thread, which writes into no block."""

    def __init__(
        self, address: tuple[str, int], facts: Facts, timeout: float, block_bytes: int,
        hashes: list[BlockHash],
    ) -> None:  # fmt: skip
        self.blocks, self.refusal = [], None
        self._question, self._block_bytes = (facts, hashes), block_bytes
        self._gives_up_at = monotonic() + timeout
        self.thread = Thread(target=self._run, args=[address, timeout], daemon=True)
        self.thread.start()

    def query(self) -> bool:
        return not self.thread.is_alive() or monotonic() > self._gives_up_at

    def _run(self, *where: object) -> None:
        with suppress(*WRONG), create_connection(*where) as connection:
            self.ask(connection.makefile("rwb"))

    def ask(self, stream: BinaryIO) -> None:
        """Ask, and keep the blocks if they are what was asked for."""
        send(stream, self._question)
        hashes, size = self._question[1], self._block_bytes
        self.refusal, blocks, sent = receive(stream, Answer, 1000 + len(hashes) * (size + 5))
        if digest(hashes, blocks) == sent and [*map(len, blocks)] == [size] * len(hashes):
            self.blocks = blocks
            stream.write(b"1")
            stream.flush()
