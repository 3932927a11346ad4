"""The middleware that every request passes before it reaches a route, outermost first.

    RequestIds     gives the request an id and a deadline; turns an uncaught error into a 500
    HeaderBounds   limits the number and size of headers
    HostCheck      against DNS rebinding: refuses a page whose own host name points to this machine
    OriginCheck    lets no page of another site use this server through a visitor's browser
    ApiKey         checks the API key, if there is one, for every path except /health
    BodyLimit      reads the whole body, up to a size and within a time (`body_limit`)

The classes are plain ASGI, because Starlette's base class hides that a client has disconnected. The
path comes from the scope, never from `request.url`, which is built from the client's Host header
(CVE-2026-48746).
"""

import asyncio
import hashlib
import logging
import re
import secrets
import time
import uuid
from collections.abc import Callable, Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minivllm.server.errors import ApiError, to_api_error
from minivllm.server.logs import REQUEST_ID

MAX_HEADERS = 100
MAX_HEADER_BYTES = 32 * 1024
PUBLIC_PATHS = frozenset({"/health"})
"""Paths that need no key, for load balancers."""

_log = logging.getLogger("minivllm.server")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?")


class RequestIds:
    """Gives a request an id (the client's X-Request-Id, if valid) and a deadline, and logs it."""

    def __init__(
        self,
        app: ASGIApp,
        timeout: float,
        on_end: Callable[[Scope, int], None] = lambda scope, status: None,
    ) -> None:
        """
        timeout: seconds from a request's arrival to its deadline
        on_end: called with each request's scope and status
        """
        self._app = app
        self._timeout = timeout
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        REQUEST_ID.set(request_id)
        fields = scope.setdefault("state", {})["log"] = {
            "method": scope["method"],
            "path": scope["path"],
        }
        scope["state"]["deadline"] = asyncio.get_running_loop().time() + self._timeout
        began, status = time.monotonic(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {
                    **message,
                    "headers": [*message["headers"], (b"x-request-id", request_id.encode())],
                }
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception as error:
            _log.exception("a request failed")
            if status == 0:
                await to_api_error(error).response()(scope, receive, send_with_id)
        finally:
            # Without a status, the client disconnected before the answer started.
            status = status or 499
            self._on_end(scope, status)
            fields |= {"status": status, "seconds": round(time.monotonic() - began, 4)}
            _log.info("request", extra={"fields": fields})


class HeaderBounds:
    """Refuses too many headers. (h11 has a limit too, so a single huge header never gets here.)"""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = scope["headers"]
            if (
                len(headers) > MAX_HEADERS
                or sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES
            ):
                error = ApiError(
                    431,
                    f"The headers are too large: send at most {MAX_HEADERS}, "
                    f"of {MAX_HEADER_BYTES} bytes in all.",
                    code="headers_too_large",
                )
                await error.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)


class HostCheck:
    """Refuses a malformed Host header and, if `names` is given, every name that is not in it."""

    def __init__(self, app: ASGIApp, names: Iterable[str] | None) -> None:
        self._app = app
        self._names = None if names is None else frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_ours(Headers(scope=scope).getlist("host")):
            error = ApiError(
                400,
                "The Host header names a host that this server does not accept: add it with"
                " --allowed-host.",
                code="invalid_host",
            )
            await error.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_ours(self, hosts: list[str]) -> bool:
        match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        return match is not None and (self._names is None or match["name"].lower() in self._names)


class OriginCheck:
    """Refuses requests that a browser sends for a page of another site.

    A page may post a form to any site. It cannot read the answer, but the server would compute it.
    Only browsers send the Origin header, with the page's site.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            # Compare the port too: another port of this machine is another origin. Behind a TLS
            # proxy the scheme is unknown, so accept both schemes.
            ours = [f"{scheme}://{headers.get('host', '')}".lower() for scheme in ("http", "https")]
            if any(origin.lower() not in ours for origin in headers.getlist("origin")):
                error = ApiError(
                    403,
                    "The Origin header names another site, and this server refuses requests from"
                    " other sites' pages: send no Origin header.",
                    code="invalid_origin",
                )
                await error.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)


class ApiKey:
    """Refuses requests without one of `keys` as `Authorization: Bearer KEY`."""

    def __init__(self, app: ASGIApp, keys: Iterable[str]) -> None:
        self._app = app
        self._digests = [hashlib.sha256(key.encode()).digest() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._digests and scope["path"] not in PUBLIC_PATHS:
            scheme, _, key = Headers(scope=scope).get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not self._knows(key.strip()):
                error = ApiError(
                    401, "The API key is missing or wrong: send it as Authorization: Bearer KEY.",
                    "authentication_error", "invalid_api_key",
                    headers={"WWW-Authenticate": "Bearer"},
                )  # fmt: skip
                await error.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _knows(self, key: str) -> bool:
        # Compare digests, which have equal lengths, and always with all keys, so that the time
        # reveals nothing about any key.
        digest = hashlib.sha256(key.encode("utf-8", "replace")).digest()
        return sum([secrets.compare_digest(digest, known) for known in self._digests]) > 0
