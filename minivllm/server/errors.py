"""Errors as OpenAI's clients expect them: `{"error": {"message", "type", "param", "code"}}`.

A response explains the client's mistake in one sentence. Details of an internal error go only to
the log. Long messages are cut, so that an answer cannot be much larger than its request.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from minivllm import errors as err

_MAX_MESSAGE = 600
_MAX_NAME = 80
TOO_LATE = "The request was not finished within the server's time limit: ask for fewer tokens."


_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


@dataclass(slots=True)
class ApiError(Exception):
    """An error with its HTTP status, error object and headers."""

    status: int
    message: str
    code: str
    param: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        long = len(self.message) > _MAX_MESSAGE
        message = f"{self.message[:_MAX_MESSAGE]}..." if long else self.message
        usual = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = _TYPES.get(self.status, usual)
        return {"error": {"message": message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body(), self.status, self.headers)


def to_api_error(error: BaseException) -> ApiError:
    text = str(error)
    match error:
        case ApiError():
            return error
        case err.UnknownModelNameError():
            return ApiError(404, text, "model_not_found", "model")
        case err.PromptTooLongError() | err.RequestTooLargeError():
            return ApiError(400, text, "context_length_exceeded", "prompt")
        case err.InvalidRequestError():
            return ApiError(400, text, "invalid_value", _named_first(text))
        case err.OverloadedError():
            retry = {"Retry-After": str(error.retry_after)}
            return ApiError(429, text, "queue_full", headers=retry)
        case err.RequestFailedError():
            return ApiError(500, text, "request_failed")
        case err.RequestTimeoutError():
            return ApiError(504, text, "request_timeout")
        case err.FeedLostError():
            return ApiError(503, text, "feed_lost")
        case err.ShuttingDownError():
            return ApiError(503, text, "shutting_down", headers={"Retry-After": "5"})
        case err.EngineDeadError():
            # The message may quote the failure, so it goes only to the log.
            text = "The engine has failed: restart the server; its log contains the reason."
            return ApiError(503, text, "engine_dead", headers={"x-should-retry": "false"})
    text = "The server failed on this request; its log contains the reason under the request id."
    return ApiError(500, text, "internal_error")


def _named_first(message: str) -> str | None:
    """Return the parameter that an error message starts with: `n`, `tools[0].type`."""
    found = re.match(r"[a-z]\w*(\[\d+\][\w.\[\]]*)?", message)
    if found is None:
        return None
    # The engine calls a prompt of tokens by another name.
    return "prompt" if found[0] == "prompt_token_ids" else found[0]


def invalid_body(error: msgspec.ValidationError) -> ApiError:
    """Explain why a body is not valid: msgspec's words, and the field that is wrong."""
    what, _, place = str(error).partition(" - at `")
    param = place.rpartition("$")[2].strip("`.").replace("[...]", "")
    unknown = re.fullmatch(r"(?s)Object (contains unknown|missing required) field `(.*)`", what)
    if unknown is not None:
        param = f"{param}.{unknown[2]}".lstrip(".")[:_MAX_NAME]
        if unknown[1] == "contains unknown":
            return ApiError(
                400, f"Unknown parameter {param!r}: leave it out.", "unknown_parameter", param
            )
        message = f"The parameter {param!r} is missing: add it."
        return ApiError(400, message, "missing_required_parameter", param)
    if what.endswith("."):  # a sentence of ours, from a check after decoding
        param = ".".join(filter(None, (param, _named_first(what))))
        return ApiError(400, what, "invalid_value", param or None)
    if not param:
        return ApiError(400, "The request's body must be a JSON object.", "invalid_value")
    return ApiError(400, f"{param}: {what[0].lower()}{what[1:]}.", "invalid_value", param)


async def _answer(request: Request, error: Exception) -> JSONResponse:
    return to_api_error(error).response()


async def _http_error(request: Request, error: HTTPException) -> JSONResponse:
    path = request.scope["path"][:_MAX_NAME]
    if error.status_code == 405:
        method = request.method[:16]
        message = f"{path!r} does not support {method!r}; /openapi.json lists its methods."
        return ApiError(405, message, "method_not_allowed", headers=error.headers).response()
    message = f"The path {path!r} does not exist; /openapi.json lists all paths."
    if path == "/v1/responses":
        message = f"The path {path!r} is not supported: use '/v1/chat/completions'."
    return ApiError(404, message, "not_found").response()


HANDLERS = {ApiError: _answer, err.MinivllmError: _answer, HTTPException: _http_error}
"""What Starlette calls for an error of a route; `middleware.RequestIds` handles all others."""
