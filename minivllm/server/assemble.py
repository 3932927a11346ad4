"""`assemble`: an engine, and everything that a server makes of it.

    engine -> EngineService (requests in, outputs out)
           -> EngineMetrics, and where asked for EventHub and KVEventFeed (listeners of its events)
           -> the application with the routes of all of them

The command and the tests get their server here, so that what is tested is what runs. The easy thing to get wrong is
the time: listeners take the engine to be idle, so they have to listen before its thread has started.
"""

from dataclasses import dataclass

from fastapi import FastAPI

from minivllm.engine import LLMEngine
from minivllm.server import event_hub, metrics
from minivllm.server.app import create_app
from minivllm.server.event_hub import EventHub, take_snapshot
from minivllm.server.kv_events import BatchSink, KVEventFeed
from minivllm.server.metrics import EngineMetrics
from minivllm.server.options import ServerOptions
from minivllm.server.service import EngineService
from minivllm.server.serving import served_name


@dataclass(frozen=True, slots=True)
class Assembled:
    """A server that waits to be run."""

    app: FastAPI
    service: EngineService
    hub: EventHub | None


def assemble(engine: LLMEngine, options: ServerOptions, kv_sink: BatchSink | None = None) -> Assembled:
    """`engine` must not have had a request yet. `kv_sink`: where KV events go, if anywhere."""
    service = EngineService(engine, max_waiting_requests=options.max_waiting_requests)
    header = engine.log_header()
    counted = EngineMetrics(header, served_name(options, engine.config))
    engine.subscribe(counted.apply)
    routers, hub = [metrics.router(counted)], None
    if options.events:
        hub = EventHub(header, lambda: service.call_engine(take_snapshot))
        engine.subscribe(hub.apply)
        service.when_over(hub.close)
        routers.append(event_hub.router(hub))
    if kv_sink is not None:
        engine.subscribe(KVEventFeed(header, kv_sink).apply)
    return Assembled(create_app(service, options, routers), service, hub)
