"""Blocks over a socket: only what was asked for is taken, whatever comes."""

import random
import socket

from support.engine.engine_fakes import prompt
from support.engine.random_histories import ApartEngine

from minivllm.core.invariants import check_invariants
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
