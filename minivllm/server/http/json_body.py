"""`JsonRoute`: a route that accepts only a JSON body of a reasonable shape.

Python's parser accepts `NaN`, numbers of ten thousand digits and a hundred thousand open brackets.
These break later code or block the event loop. So the text is checked before parsing, and numbers
during parsing. All work for a request ends when its client disconnects or its time is up.

Like early vLLM, `/generate` accepts any content type, because `curl -d` declares a form; there,
only `middleware.OriginCheck` protects against web pages. All other routes require JSON's content
type.
"""

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from minivllm.errors import RequestTimeoutError
from minivllm.server.errors import ApiError
from minivllm.server.http.disconnect import unless_disconnected

MAX_DEPTH = 32
MAX_DIGITS = 100
MAX_PARTS = 20_000
"""Limit for strings (including keys) and brackets together; about as many as in 3,000 messages."""
CLIENT_GONE = 499
"""Status for the log, if the client disconnected; no client ever sees it."""


class JsonRoute(APIRoute):
    any_content_type = False

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            if request.method != "POST":
                return await handle(request)
            if not self.any_content_type:
                _require_json(request.headers.get("content-type", ""))
            request = _JsonRequest(request.scope, request.receive)
            await request.json()
            answer = await unless_disconnected(request.receive, _in_time(request, handle(request)))
            return Response(status_code=CLIENT_GONE) if answer is None else answer

        return checked


class AnyTypeRoute(JsonRoute):
    any_content_type = True


class _JsonRequest(Request):
    """A request whose JSON value we have parsed already, for FastAPI."""

    def __init__(self, scope: Any, receive: Any) -> None:
        others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
        super().__init__(
            {**scope, "headers": [*others, (b"content-type", b"application/json")]}, receive
        )
        self._value: list[Any] = []

    async def json(self) -> Any:
        if not self._value:
            self._value.append(parse_json(await self.body()))
        return self._value[0]


async def _in_time(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """Return the result of `work`: an answer or a started stream. At the deadline, raise."""
    try:
        async with asyncio.timeout_at(request.state.deadline) as limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise RequestTimeoutError(
            "The request was not finished within the server's time limit: ask for fewer tokens, or"
            " send a shorter prompt."
        ) from None


def _require_json(content_type: str) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(
            415, "The body must be JSON: send it with the header Content-Type: application/json.",
            code="unsupported_media_type",
        )  # fmt: skip


def parse_json(body: bytes) -> Any:
    """Parse a JSON text. Raises `ApiError`."""
    try:
        text = body.decode("utf-8")
        _check_shape(text)
        return json.loads(text, parse_constant=_refuse_constant, parse_int=_read_int)
    except ApiError:
        raise
    except UnicodeDecodeError as error:
        raise _invalid(f"it is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise _invalid(f"{error.msg}, at line {error.lineno}, column {error.colno}") from None


def _invalid(why: str) -> ApiError:
    return ApiError(400, f"The body is not valid JSON: {why}.", code="invalid_json")


# Matches a whole string, even an unterminated one, or one bracket outside of strings.
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{}]', re.DOTALL)


def _check_shape(text: str) -> None:
    depth, field = 0, ""
    for number, match in enumerate(_STRING_OR_BRACKET.finditer(text)):
        what = match[0]
        if number == MAX_PARTS:
            _refuse_shape(field, f"has more than {MAX_PARTS:,} strings and brackets: send less")
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(what, 0)
        if depth > MAX_DEPTH:
            _refuse_shape(field, f"is nested more than {MAX_DEPTH} levels deep: nest it less")
        if depth == 1 and what[0] == '"':
            field = what[1:-1]


def _refuse_shape(field: str, what: str) -> None:
    """field: the last key or string of the outermost object, whose value is too large"""
    param = field if field.isidentifier() and len(field) < MAX_DIGITS else None
    raise ApiError(400, f"{param or 'The body'} {what}.", code="invalid_json", param=param)


def _refuse_constant(name: str) -> None:
    raise _invalid(f"{name} is not a number in JSON")


def _read_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _invalid(f"a number has {len(digits)} digits, but at most {MAX_DIGITS} are allowed")
    return int(digits)
