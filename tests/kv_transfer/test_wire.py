"""Blocks over a socket: only what was asked for is taken, whatever comes."""

import random
import socket
from contextlib import suppress
from threading import Thread
from time import sleep

import pytest
from support.engine.engine_fakes import expected_output, prompt
from support.engine.random_histories import ApartEngine

from minivllm.core.invariants import check_invariants
from minivllm.events import types as ev
from minivllm.kv_transfer.wire import RemoteFetch, listen

FACTS = {"model": "fake", "block_size": "4"}


def test_a_peer_gets_the_blocks_of_a_lease_or_nothing():
    engine = ApartEngine(20, role="kv_producer", rng=random.Random(0))
    engine.add("a", prompt(18), max_tokens=1)
    engine.run()
    server = listen(engine.connector, ("127.0.0.1", 0), FACTS, 5.0)
    (lease,) = engine.connector.leases.values()
    hashes = [block.block_hash for block in lease.blocks]
    held = [engine.connector.memory.read(block.block_id) for block in lease.blocks]

    def fetch(hashes: list[bytes], size: int = 32, **other: str) -> tuple[str | None, list[bytes]]:
        found = RemoteFetch(server.server_address, FACTS | other, 5.0, size, hashes)
        found.thread.join()
        return found.refusal, found.blocks

    socket.create_connection(server.server_address).sendall(b"\xff" * 99)  # too long a message
    assert fetch(hashes, size=16) == fetch([b"?" * 32]) == ("", [])
    refusal = "the producer has block_size 4, and the consumer 16: both need the same."
    assert fetch(hashes, block_size="16") == (refusal, [])
    assert engine.pool.num_free_blocks == 16, "the lease still holds the blocks"
    assert fetch(hashes[2:]) == ("", held[2:])
    lease.blocks[0].block_hash = None
    assert "a leased block has a hash" in {it.name for it in check_invariants(engine.scheduler)}
    server.shutdown()
    server.server_close()
    assert fetch(hashes) == (None, [])


def drip(listener: socket.socket) -> None:
    """Promise more bytes than it ever sends, and send them so fast that no single read waits."""
    with suppress(OSError), listener.accept()[0] as connection:
        connection.sendall((999).to_bytes(8))
        while True:
            connection.sendall(b"?")
            sleep(0.05)


@pytest.mark.parametrize("peer", ["is stopped", "drips"])
def test_a_peer_that_hangs_ends_in_a_recompute(peer: str):
    """A process that is stopped (SIGSTOP) still has its port: the system takes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        if peer == "drips":
            Thread(target=drip, args=[listener], daemon=True).start()
        engine = ApartEngine(20, role="kv_consumer", rng=random.Random(0))
        where = listener.getsockname(), FACTS, 0.3, 32
        engine.connector.fetch = lambda sequence, hashes: RemoteFetch(*where, hashes)
        engine.add("a", prompt(18), max_tokens=2)
        engine.step()
        assert engine.fold.loads.keys() == {"a.0"}
        for _ in range(500):  # at least five seconds, of which the bound is a small part
            sleep(0.01 * bool(engine.fold.loads))
            engine.step()
        assert [event.num_tokens for event in engine.events_of(ev.KVLoaded)] == [0]
        assert engine.outputs["a"].outputs[0].token_ids == expected_output(prompt(18), 2)
