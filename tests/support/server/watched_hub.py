"""An engine that a test steps, its event stream on loopback, and a proxy that can break off."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from fastapi import FastAPI

from minivllm.errors import ShuttingDownError
from minivllm.events import types as ev
from minivllm.sampling_params import SamplingParams
from minivllm.server.errors import add_error_handlers
from minivllm.server.feeds.event_hub import EventHub, Snapshot, router, take_snapshot
from support.engine.engine_fakes import WatchedEngine
from support.patience import SOON
from support.server.server_on_loopback import served


class Watched:
    """An engine with a hub, stepped by the test."""

    def __init__(self, **options: object) -> None:
        self.engine = WatchedEngine(num_blocks=16, max_num_seqs=4)
        self.num_snapshots = 0
        self.hub = EventHub(self.engine.engine.log_header(), self.snapshot, **options)
        self.engine.engine.subscribe(self.hub.apply)
        self.num_requests = 0

    def snapshot(self) -> Future[Snapshot]:
        self.num_snapshots += 1
        future: Future[Snapshot] = Future()
        future.set_result(take_snapshot(self.engine.engine))
        return future

    @property
    def events(self) -> list[ev.Event]:
        return self.engine.events

    def work(self, num_requests: int = 3) -> None:
        """Run requests that cause preemptions, hits and evictions."""
        for _ in range(num_requests):
            self.num_requests += 1
            prompt = [1, 2, 3, 4, 5, 6, 7, 8, self.num_requests % 90, 3]
            params = SamplingParams(temperature=0, max_tokens=12)
            self.engine.engine.add_request(
                f"r{self.num_requests}", {"prompt_token_ids": prompt}, params
            )
        while self.engine.engine.has_unfinished_requests():
            self.engine.engine.step()

    def close(self) -> None:
        self.hub.close(ShuttingDownError("The server is shutting down."))

    @contextmanager
    def served(self) -> Iterator[str]:
        app = FastAPI()
        app.include_router(router(self.hub))
        add_error_handlers(app)
        with served(app, self.close) as url:
            yield url


class CutOnce:
    """A TCP proxy before a server: `break_off` cuts its connections."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self.num_connections = 0
        self._sockets: list[socket.socket] = []
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def break_off(self, hold: bool = False) -> None:
        if hold:
            self._open.clear()
        for one in self._sockets:
            with suppress(OSError):  # the other side may be closed already
                one.shutdown(socket.SHUT_RDWR)
        self._sockets.clear()

    def let_go(self) -> None:
        self._open.set()

    def close(self) -> None:
        self.let_go()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                self._open.wait(SOON)
                server = socket.create_connection((self._target.hostname, self._target.port))
            except OSError:
                return  # the test is over
            self.num_connections += 1
            self._sockets += [client, server]
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)
