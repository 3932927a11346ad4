"""Serves an ASGI app with uvicorn on a free loopback port, in a thread."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from support.patience import SOON


@contextmanager
def served(app: FastAPI, before_stop: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Yield the address. `before_stop` ends requests that would keep connections open."""
    listener = socket.socket()
    # A small buffer, so that the server soon notices a client that does not read.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=3)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        before_stop()
        server.should_exit = True
        thread.join(SOON)
        listener.close()
    assert not thread.is_alive()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)
