"""A server with an engine that tests can inspect, on a port; `in_process.py` needs none."""

import asyncio
import json
import math
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx2
from openai import OpenAI
from starlette.applications import Starlette

from minivllm.clock import Clock, MonotonicClock
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.runtime.step_result import Watch
from minivllm.server.app import assemble
from minivllm.server.feeds.event_hub import EventHub
from minivllm.server.options import ServerOptions
from minivllm.server.run import Server, bind, url_of
from minivllm.server.service import EngineService
from support.engine import engine_fakes
from support.engine.engine_fakes import FakeRunner
from support.patience import SOON


class Gate:
    """Holds the steps of a `FakeRunner` whose hook `before` it is, unless it is open."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._num_allowed = math.inf
        self.num_steps = 0
        self.holds = False
        """Whether a step waits."""

    def open(self, num_steps: float = math.inf) -> None:
        """Let this many steps pass, and then close."""
        with self._turn:
            self._num_allowed = num_steps
            self._turn.notify_all()

    def close(self) -> None:
        self.open(0)

    def __call__(self, plan: SchedulerOutput, watch: Watch) -> None:
        with self._turn:
            self.holds = self._num_allowed == 0
            assert self._turn.wait_for(lambda: self._num_allowed > 0, SOON), "left closed"
            self.holds = False
            self._num_allowed -= 1
            self.num_steps += 1


def fake_engine(
    num_blocks: int = 100, max_model_len: int = 200, *, clock: Clock | None = None,
    **options: object,
) -> LLMEngine:  # fmt: skip
    clock = clock or MonotonicClock()
    engine = engine_fakes.fake_engine(num_blocks, max_model_len, clock=clock, **options)
    engine.core.runner.plain.before = Gate()
    return engine


@dataclass
class LiveServer:
    url: str
    engine: LLMEngine
    service: EngineService
    loop: asyncio.AbstractEventLoop
    hub: EventHub | None
    api_key: str | None
    server: Server | None = None  # on a port
    transport: httpx2.BaseTransport | None = None  # in process
    events: list[ev.Event] = field(default_factory=list)

    @classmethod
    def around(
        cls, engine: LLMEngine, options: ServerOptions, url: str
    ) -> tuple["LiveServer", Starlette]:
        parts = assemble(engine, options)
        key = options.api_key[0] if options.api_key else None
        live = cls(url, engine, parts.service, asyncio.new_event_loop(), parts.hub, key)
        engine.subscribe(live.events.append)
        return live, parts.app

    @property
    def runner(self) -> FakeRunner:
        return self.engine.core.runner.plain

    @property
    def gate(self) -> Gate:
        return self.runner.before

    @property
    def num_free_blocks(self) -> int:
        return self.engine.core.scheduler.kv_cache_manager.pool.num_free_blocks

    def http(self, **options: object) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        options = {"timeout": SOON, "headers": headers, **options}
        return httpx2.Client(
            base_url=self.url, transport=self.transport, trust_env=False, **options
        )

    def post(self, path: str, body: dict, **options: object) -> httpx2.Response:
        with self.http() as http:
            return http.post(path, json=body, **options)

    def openai(self, strict: bool = True) -> OpenAI:
        """A client without retries, so that every error is seen."""
        return OpenAI(
            base_url=f"{self.url}/v1", api_key=self.api_key or "none", max_retries=0,
            http_client=self.http(), _strict_response_validation=strict,
        )  # fmt: skip

    def events_of(self, kind: type[ev.Event]) -> list[ev.Event]:
        return [event for event in self.events if type(event) is kind]

    def begin_exit(self) -> None:
        self.loop.call_soon_threadsafe(self.server.begin_exit)

    def wait_until_idle(self) -> None:
        """Wait until all requests have finished and the engine is empty."""
        wait_for(lambda: self.service.num_unfinished == 0)
        wait_for(lambda: not self.engine.has_unfinished_requests())

    def open_gate(self) -> None:
        if isinstance(self.runner, FakeRunner):
            self.gate.open()


def error_of(answer: httpx2.Response) -> tuple[int, str]:
    """Status and code of an error, which has OpenAI's shape and one sentence."""
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert 10 < len(error["message"]) < 600 and "Traceback" not in error["message"]
    return answer.status_code, error["code"]


def joined(chunks: Iterable, text_of: Callable[[object], str]) -> dict[int, str]:
    """The texts of a stream by index; fails unless each choice ends once, with its last chunk."""
    texts, ended, ids = {}, set(), set()
    for chunk in chunks:
        ids.add((chunk.id, chunk.created, chunk.model))
        for choice in chunk.choices:
            assert choice.index not in ended
            texts[choice.index] = texts.get(choice.index, "") + text_of(choice)
            ended |= {choice.index} if choice.finish_reason is not None else set()
    assert len(ids) == 1 and ended == texts.keys()
    return texts


def wait_for(condition: Callable[[], bool], seconds: float = SOON) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not come to pass")
        time.sleep(0.002)


@contextmanager
def serving(
    engine: LLMEngine | None = None, *, send_buffer: int | None = None, **options: object
) -> Iterator[LiveServer]:
    """Serve an engine; send_buffer: socket buffer in bytes, for clients that do not read."""
    settings = ServerOptions(**{"port": 0, "drain_timeout": 5.0} | options)
    bound = bind(settings)
    if send_buffer is not None:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    live, app = LiveServer.around(engine or fake_engine(), settings, url_of(bound))
    live.server = server = Server(app, live.service, settings)
    loop = live.loop
    thread = threading.Thread(
        target=loop.run_until_complete, args=(server.serve(sockets=[bound]),), daemon=True
    )
    thread.start()
    try:
        wait_for(lambda: server.started)
        yield live
    finally:
        live.open_gate()
        if thread.is_alive() and not server.should_exit:
            live.begin_exit()
        thread.join(SOON)
        if thread.is_alive():
            raise AssertionError("the server did not end")
        loop.close()


def deaf_client(live: LiveServer, path: str, body: dict, method: str = "POST") -> socket.socket:
    """A client that sends a request and never reads."""
    client, parts = socket.socket(), urlsplit(live.url)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((parts.hostname, parts.port))
    content = json.dumps(body).encode() if method == "POST" else b""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type:"
        f" application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    client.sendall(head.encode() + content)
    return client
