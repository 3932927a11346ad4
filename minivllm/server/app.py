"""`create_app`: the service, the routes and what every request has to pass, put together.

The easy thing to get wrong is the order of what requests pass: Starlette runs the middleware that
was added last first. And FastAPI's own pages of documentation load scripts from elsewhere, so there
are none; `/openapi.json` is there.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI
from starlette.types import Scope

from minivllm import __version__
from minivllm.server.errors import add_error_handlers
from minivllm.server.http import middleware
from minivllm.server.http.body_limit import BodyLimit
from minivllm.server.options import LOOPBACK_NAMES, ServerOptions
from minivllm.server.routers import about, chat, completions, generate, tokenizer
from minivllm.server.service import EngineService
from minivllm.server.serving import Serving


def create_app(
    service: EngineService,
    options: ServerOptions,
    routers: Iterable[APIRouter],
    on_end: Callable[[Scope, int], None],
) -> FastAPI:
    """The application; it starts `service` when it starts, and closes it at its end.

    routers: more to mount; on_end: told the scope and status of each HTTP request
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.close()

    app = FastAPI(
        title="minivllm",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    serving = Serving(service, options)
    ours = (part.router(serving) for part in (about, completions, chat, generate, tokenizer))
    for router in (*ours, *routers):
        app.include_router(router)
    add_error_handlers(app)
    app.add_middleware(
        BodyLimit,
        max_bytes=options.max_body_bytes,
        timeout=options.body_timeout,
        on_passed=service.tidy_up,
    )
    app.add_middleware(middleware.ApiKey, keys=options.api_key)
    app.add_middleware(middleware.OriginCheck)
    app.add_middleware(middleware.HostCheck, names=_host_names(options))
    app.add_middleware(middleware.HeaderBounds)
    app.add_middleware(middleware.RequestIds, timeout=options.request_timeout, on_end=on_end)
    return app


def _host_names(options: ServerOptions) -> list[str] | None:
    """What a Host header may say; None for anything.

    A page in a browser can reach a server on this machine under a name of the page's own. It cannot
    know the API key, so where one is needed, and nobody named the hosts, clients may call us what
    they like.
    """
    if options.allowed_hosts:
        return [*LOOPBACK_NAMES, options.host, *options.allowed_hosts]
    return [*LOOPBACK_NAMES, options.host] if options.is_loopback else None
