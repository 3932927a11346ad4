"""`assemble`: build the server around an engine, for the command and for tests.

    engine -> EngineService (requests in, outputs out)
           -> EngineMetrics, and optionally EventHub and KVEventFeed (listeners of engine events)
           -> the application with the routes of all these parts

Listeners assume an idle engine, so they subscribe before the engine's thread starts. In a server, a
listener that raises does not stop the engine; only its feed is closed.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import FastAPI

from minivllm.engine.engine import LLMEngine
from minivllm.errors import FeedLostError
from minivllm.events import types as ev
from minivllm.server.app import create_app
from minivllm.server.feeds import event_hub
from minivllm.server.feeds.event_hub import EventHub, take_snapshot
from minivllm.server.feeds.kv_feed import BatchSink, KVEventFeed
from minivllm.server.metrics import router
from minivllm.server.metrics.http_totals import HttpTotals
from minivllm.server.metrics.router import EngineMetrics
from minivllm.server.options import ServerOptions
from minivllm.server.service import EngineService
from minivllm.server.serving import served_name

_log = logging.getLogger("minivllm.server")


@dataclass(frozen=True, slots=True)
class Assembled:
    app: FastAPI
    service: EngineService
    hub: EventHub | None


def assemble(
    engine: LLMEngine, options: ServerOptions, kv_sink: BatchSink | None = None
) -> Assembled:
    """Build a server around `engine`, which must not have had a request yet.

    kv_sink: receives the KV events, if any
    """
    service = EngineService(engine, max_waiting_requests=options.max_waiting_requests)
    header = engine.log_header()
    counted = EngineMetrics(header, served_name(options, engine.config))
    _listen(engine, "metrics", counted.apply, counted.close)
    routers, hub = [router.router(counted)], None
    if options.events:
        hub = EventHub(header, lambda: service.call_engine(take_snapshot))
        _listen(engine, "events", hub.apply, hub.close)
        service.when_over(hub.close)
        routers.append(event_hub.router(hub))
    if kv_sink is not None:
        _listen(engine, "KV events", KVEventFeed(header, kv_sink).apply)
    return Assembled(
        create_app(service, options, routers, HttpTotals(counted.registry).count), service, hub
    )


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
            close(
                FeedLostError(
                    f"The server's {name} have failed and are no longer updated; see the server's"
                    " log."
                )
            )

    unsubscribe = engine.subscribe(guarded)
