"""Errors as OpenAI's clients expect them: `{"error": {"message", "type", "param", "code"}}`.

A response explains the client's mistake in one sentence. Details of an internal error go only to
the log. Quoted input is cut, so that an answer cannot be larger than its request.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from minivllm.errors import (
    EngineDeadError,
    FeedLostError,
    InvalidRequestError,
    MinivllmError,
    OverloadedError,
    PromptTooLongError,
    RequestFailedError,
    RequestTimeoutError,
    RequestTooLargeError,
    ShuttingDownError,
    UnknownModelNameError,
)
from minivllm.sampling_params import SamplingParams

_MAX_MESSAGE = 600
_MAX_INPUT = 80
_PARAMETERS = frozenset(item.name for item in fields(SamplingParams)) | {
    "priority",
    "cache_salt",
    "prompt",
    "messages",
    "response_format",
    "tool_choice",
    "tools",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
}


class ErrorObject(BaseModel):
    """OpenAI's error object."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorResponse(BaseModel):
    """The body of every error response."""

    error: ErrorObject


ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse}
    for status in (400, 401, 403, 404, 405, 408, 413, 415, 429, 431, 500, 503, 504, "default")
}
"""The error responses of each route in the OpenAPI schema. Without "default", FastAPI would add the
status 422 with its own format.
"""


@dataclass(slots=True)
class ApiError(Exception):
    """An error with its HTTP status, error object and headers."""

    status: int
    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        message = (
            self.message
            if len(self.message) <= _MAX_MESSAGE
            else f"{self.message[:_MAX_MESSAGE]}..."
        )
        return {
            "error": {"message": message, "type": self.type, "param": self.param, "code": self.code}
        }

    def response(self) -> JSONResponse:
        return JSONResponse(self.body(), self.status, self.headers)


def to_api_error(error: BaseException) -> ApiError:
    match error:
        case ApiError():
            return error
        case UnknownModelNameError():
            return ApiError(404, str(error), code="model_not_found", param="model")
        case PromptTooLongError() | RequestTooLargeError():
            return ApiError(400, str(error), code="context_length_exceeded", param="prompt")
        case InvalidRequestError():
            return ApiError(400, str(error), code="invalid_value", param=_named_first(str(error)))
        case OverloadedError():
            return ApiError(
                429,
                str(error),
                "rate_limit_error",
                "queue_full",
                headers={"Retry-After": str(error.retry_after)},
            )
        case ShuttingDownError():
            return ApiError(
                503, str(error), "server_error", "shutting_down", headers={"Retry-After": "5"}
            )
        case EngineDeadError():
            # The message may quote the failure, so it goes only to the log.
            message = "The engine has failed: restart the server; its log contains the reason."
            return ApiError(
                503, message, "server_error", "engine_dead", headers={"x-should-retry": "false"}
            )
        case FeedLostError():
            return ApiError(503, str(error), "server_error", "feed_lost")
        case RequestFailedError():
            return ApiError(500, str(error), "server_error", "request_failed")
        case RequestTimeoutError():
            return ApiError(504, str(error), "server_error", "request_timeout")
        case _:
            message = (
                "The server failed on this request; its log contains the reason under the request"
                " id of this response."
            )
            return ApiError(500, message, "server_error", "internal_error")


def add_error_handlers(app: FastAPI) -> None:

    async def ours(request: Request, error: Exception) -> JSONResponse:
        return to_api_error(error).response()

    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return _validation_error(error).response()

    async def http(request: Request, error: HTTPException) -> JSONResponse:
        return _http_error(request, error).response()

    app.add_exception_handler(ApiError, ours)
    app.add_exception_handler(MinivllmError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


def _http_error(request: Request, error: HTTPException) -> ApiError:
    path = request.scope["path"][:_MAX_INPUT]
    instead = (
        "is not supported: use '/v1/chat/completions', which has tools and response_format."
        if path == "/v1/responses"
        else "does not exist; /openapi.json lists all paths."
    )
    message = {
        404: f"The path {path!r} {instead}",
        405: (
            f"{path!r} does not support {request.method[:16]!r}; /openapi.json lists its methods."
        ),
    }.get(error.status_code, str(error.detail))
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
    return ApiError(error.status_code, message, code=code, headers=dict(error.headers or {}))


def _validation_error(error: RequestValidationError) -> ApiError:
    first = _most_telling(error.errors())
    where = [str(part) for part in first["loc"][1:]]
    # For a union, pydantic's location also names the alternative that pydantic tried.
    parts = [part for i, part in enumerate(where) if i == 0 or _is_no_arm(part)]
    param = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", ".".join(parts))[:_MAX_INPUT]
    code, given = "invalid_value", repr(first.get("input"))
    given = given if len(given) <= _MAX_INPUT else f"{given[:_MAX_INPUT]}..."
    match first["type"]:
        case "extra_forbidden":
            code = "unknown_parameter"
            message = f"Unknown parameter {param!r}: leave it out."
        case "missing":
            code = "missing_required_parameter"
            message = (
                f"The parameter {param!r} is missing: add it."
                if param
                else "The request has no body: send JSON."
            )
        case "value_error":  # ours, from a validator
            message = str(first["ctx"]["error"])
        case _ if not param:
            message = "The request's body must be a JSON object."
        case _:
            message = f"{param}: {_plain(first['msg'])}; got {given}."
    return ApiError(400, message, code=code, param=param or None)


def _plain(message: str) -> str:
    """Return pydantic's words as words about JSON."""
    message = re.sub("^(Input|String|List) should", "it should", message)
    message = re.sub("a valid dictionary( or object to extract fields from)?", "an object", message)
    return message.replace(" after validation", "")


def _most_telling(errors: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Choose the first error that is not only about a wrong type; else the first error.

    Each alternative of a union reports an error, and "too many items" is more useful than "not a
    string". For an object, "not one of these words" is about a wrong type too.
    """
    of_first = [item for item in errors if item["loc"][:2] == errors[0]["loc"][:2]]
    return next((item for item in of_first if not _is_about_type(item)), errors[0])


def _is_about_type(item: dict[str, Any]) -> bool:
    of_words = item["type"] == "literal_error" and isinstance(item["input"], dict)
    return of_words or item["type"].endswith("_type")


def _is_no_arm(part: str) -> bool:
    arms = ("bool", "str", "NamedToolChoice")
    return (part.isidentifier() and part not in arms) or part.isdigit()


def _named_first(message: str) -> str | None:
    """Return the parameter that one of our error messages starts with: `n`, `tools[0].type`."""
    word, place = re.match(r"(\w*)((?:\[\d+\])?[\w.\[\]]*)", message).groups()
    if word == "prompt_token_ids":  # the engine's name for a prompt given as tokens
        return "prompt"
    place = place if place.startswith("[") else ""
    return word + place if word in _PARAMETERS else None
