"""The middleware that every request passes before it reaches a route, outermost first.

    RequestIds   gives the request an id and a deadline; turns an uncaught error into a 500
    Access       checks the Host and Origin headers and the API key

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
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minivllm.server.errors import ApiError, to_api_error
from minivllm.server.logs import REQUEST_ID

_log = logging.getLogger("minivllm.server")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?")


class RequestIds:
    """Gives a request an id (the client's X-Request-Id, if valid) and a deadline, and logs it."""

    def __init__(self, app: ASGIApp, timeout: float, on_end: Callable[[Scope, int], None]) -> None:
        """timeout: seconds until the deadline; on_end: called with the scope and the status"""
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
        fields = {"method": scope["method"], "path": scope["path"]}
        deadline = asyncio.get_running_loop().time() + self._timeout
        scope.setdefault("state", {}).update(log=fields, deadline=deadline)
        began, status = time.monotonic(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"].append((b"x-request-id", request_id.encode()))
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            pass
        except Exception as error:
            _log.exception("a request failed")
            if status == 0:
                await to_api_error(error).response()(scope, receive, send_with_id)
        finally:
            # Without a status, the client left before the answer started; 499 is for the log.
            status = status or 499
            self._on_end(scope, status)
            fields |= {"status": status, "seconds": round(time.monotonic() - began, 4)}
            _log.info("request", extra={"fields": fields})


class Access:
    """Refuses what must not use this server.

    Host     against DNS rebinding: a page whose own host name points to this machine
    Origin   a browser's request for a page of another site. The page could not read the answer, but
             the server would compute it. Only browsers send this header.
    key      without `Authorization: Bearer KEY`, if the server has keys
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] | None, keys: Iterable[str]) -> None:
        """hosts: names that the Host header may contain; None: any"""
        self._app = app
        self._hosts = None if hosts is None else frozenset(name.lower() for name in hosts)
        self._digests = [hashlib.sha256(key.encode()).digest() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (self._app if refusal is None else refusal.response())(scope, receive, send)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        host = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if host is None or not (self._hosts is None or host["name"].lower() in self._hosts):
            message = "The server does not accept the name in the Host header: add --allowed-host."
            return ApiError(400, message, "invalid_host")
        # Compare the port too: another port of this machine is another origin. Behind a TLS proxy
        # the scheme is unknown, so accept both schemes.
        ours = [f"{scheme}://{hosts[0]}".lower() for scheme in ("http", "https")]
        if any(origin.lower() not in ours for origin in headers.getlist("origin")):
            message = "The server refuses pages of other sites: send no Origin header."
            return ApiError(403, message, "invalid_origin")
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if not self._digests or scope["path"] == "/health":  # load balancers have no key
            return None
        if scheme.lower() == "bearer" and self._knows(key.strip()):
            return None
        return ApiError(
            401, "The API key is missing or wrong: send it as Authorization: Bearer KEY.",
            "invalid_api_key", headers={"WWW-Authenticate": "Bearer"},
        )  # fmt: skip

    def _knows(self, key: str) -> bool:
        # Compare digests, which have equal lengths, and always with all keys, so that the time
        # reveals nothing about any key.
        digest = hashlib.sha256(key.encode("utf-8", "replace")).digest()
        return sum([secrets.compare_digest(digest, known) for known in self._digests]) > 0
