"""KV events over ZeroMQ: real subscribers, as vLLM's own clients read them."""

import time
from contextlib import contextmanager

import pytest
import zmq
from support.patience import SOON

from minivllm.errors import ConfigError
from minivllm.events.vllm_kv_wire import END_SEQ, BlockStored, KVEventEncoding, decode_batch
from minivllm.server.feeds.kv_options import KVEventsConfig
from minivllm.server.feeds.kv_publisher import KVEventPublisher


@contextmanager
def publishing(encoding: KVEventEncoding, **options: object):
    anywhere = "tcp://127.0.0.1:*"
    config = KVEventsConfig(endpoint=anywhere, replay_endpoint=anywhere, **options)
    publisher = KVEventPublisher(config, encoding)
    context = zmq.Context()
    try:
        yield publisher, context
    finally:
        publisher.close()
        context.destroy(linger=0)


def subscribed(publisher: KVEventPublisher, context: zmq.Context, topic: str = "") -> zmq.Socket:
    socket = context.socket(zmq.SUB)
    socket.setsockopt(zmq.RCVTIMEO, int(1000 * SOON))
    socket.setsockopt_string(zmq.SUBSCRIBE, topic)
    socket.connect(publisher.endpoint)
    # PUB drops messages before the connection is complete: ask until something arrives.
    deadline = time.monotonic() + SOON
    while not socket.poll(10):
        assert time.monotonic() < deadline
        publisher.publish(0.0, [])
    return socket


def replayed(
    publisher: KVEventPublisher, context: zmq.Context, first: int
) -> list[tuple[int, bytes]]:
    """As vLLM's own clients ask: an empty frame, then the number."""
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.RCVTIMEO, int(1000 * SOON))
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.connect(publisher.replay_endpoint)
    socket.send_multipart((b"", first.to_bytes(8, "big")))
    found = []
    while True:
        delimiter, number, payload = socket.recv_multipart()
        assert delimiter == b""
        if number == END_SEQ:
            assert payload == b""
            return found
        found.append((int.from_bytes(number, "big"), payload))


@pytest.mark.parametrize("encoding", ["map", "array"])
def test_a_real_subscriber_gets_every_batch_in_either_encoding(encoding):
    stored = [
        BlockStored([number + 1], number or None, [1, 2, 3, number], 4) for number in range(50)
    ]
    with publishing(encoding, topic="kv@here", buffer_steps=40) as (publisher, context):
        socket = subscribed(publisher, context, "kv")
        for event in stored:
            publisher.publish(0.0, [event])
        got, numbers = [], []
        while len(got) < len(stored):
            topic, number, payload = socket.recv_multipart()
            assert topic == b"kv@here"
            numbers.append(int.from_bytes(number, "big"))
            got += decode_batch(payload).events
        assert got == stored
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert [number for number, _ in replayed(publisher, context, numbers[-3])] == numbers[-3:]
        # The oldest batches are dropped.
        assert [number for number, _ in replayed(publisher, context, 0)] == numbers[-40:]


def test_a_public_address_is_refused():
    for endpoint in ("tcp://*:5557", "tcp://0.0.0.0:5557", "tcp://192.168.1.4:5557", "http://x"):
        for refused in (
            KVEventsConfig(endpoint=endpoint),
            KVEventsConfig(endpoint="tcp://127.0.0.1:*", replay_endpoint=endpoint),
        ):
            with pytest.raises(ConfigError, match="contain the prompts of all users"):
                KVEventPublisher(refused)
