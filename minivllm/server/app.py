"""`create_app`: puts the service, the routes and the middleware together.

In Starlette, the middleware that is added last runs first. FastAPI's documentation pages are off,
because they load scripts from other sites; `/openapi.json` stays.
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
    """Create the application, which starts and closes `service`.

    routers: more routes to mount; on_end: called with the scope and status of each HTTP request
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
    """A web page in a browser can reach a local server under the page's own host name, but it does
    not know the API key. So a server with a key accepts any name (None), unless `allowed_hosts` is
    given.
    """
    if options.allowed_hosts:
        return [*LOOPBACK_NAMES, options.host, *options.allowed_hosts]
    return [*LOOPBACK_NAMES, options.host] if options.is_loopback else None
