"""`assemble`: build the server around an engine, for the command and for tests.

    engine -> EngineService (requests in, outputs out)
           -> EngineMetrics, and optionally EventHub (listeners of engine events)
           -> the application: the routes of all these parts, behind the middleware

Listeners assume an idle engine, so they subscribe before the engine's thread starts. In a server, a
listener that raises does not stop the engine; only its feed is closed.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.middleware import Middleware

from minivllm.engine.engine import LLMEngine
from minivllm.errors import FeedLostError
from minivllm.events import types as ev
from minivllm.server.errors import HANDLERS
from minivllm.server.feeds import event_hub
from minivllm.server.feeds.event_hub import EventHub
from minivllm.server.http.middleware import Access, RequestIds
from minivllm.server.http.routes import Bodies
from minivllm.server.metrics import router
from minivllm.server.metrics.router import EngineMetrics
from minivllm.server.options import ServerOptions
from minivllm.server.routers import about, chat, completions, generate, tokens
from minivllm.server.service import EngineService

_log = logging.getLogger("minivllm.server")


@dataclass(frozen=True, slots=True)
class Assembled:
    app: Starlette
    service: EngineService
    hub: EventHub | None


def assemble(engine: LLMEngine, options: ServerOptions) -> Assembled:
    """Build a server around `engine`, which must not have had a request yet."""
    service = EngineService(engine, options)
    header = engine.log_header()
    metrics, hub = EngineMetrics(header, service.model_name), None
    _listen(engine, "metrics", metrics.apply, metrics.close)
    routes = [
        *about.routes(service),
        *completions.routes(service),
        *chat.routes(service),
        *generate.routes(service),
        *tokens.routes(service),
        *router.routes(metrics),
    ]
    if options.events:
        hub = EventHub(header, service.ask_engine)
        _listen(engine, "events", hub.apply, hub.close)
        service.on_over = hub.close
        routes += event_hub.routes(hub)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.close()

    app = Starlette(
        routes=[*routes, about.openapi(routes)],
        middleware=[
            Middleware(RequestIds, timeout=options.request_timeout, on_end=metrics.count_request),
            Middleware(Access, hosts=options.host_names, keys=options.api_key),
        ],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.bodies = Bodies(options.max_body_bytes, options.body_timeout)
    return Assembled(app, service, hub)


def _listen(
    engine: LLMEngine,
    name: str,
    listener: Callable[[ev.Event], None],
    close: Callable[[FeedLostError], None] = lambda why: None,
) -> None:
    """Call `listener` with every event until it raises; then call `close` once."""

    def guarded(event: ev.Event) -> None:
        try:
            listener(event)
        except Exception:
            unsubscribe()
            _log.exception(
                "a feed has failed and is closed; the engine continues",
                extra={"fields": {"feed": name}},
            )
            close(FeedLostError(f"The server's {name} have failed and stopped: see its log."))

    unsubscribe = engine.subscribe(guarded)
