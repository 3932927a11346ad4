"""`GET /v1/models`, `/health`, `/version`, `/openapi.json`: what is served, and whether it works.

A server with a dead engine still answers HTTP. `/health` must then return 503; otherwise a load
balancer would keep sending requests.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from minivllm import __version__
from minivllm.errors import EngineDeadError, ShuttingDownError
from minivllm.server.http.routes import JsonRoute
from minivllm.server.service import EngineService


def routes(service: EngineService) -> list[Route]:
    card = {
        "id": service.model_name,
        "object": "model",
        "created": service.created,
        "owned_by": "minivllm",
        "root": service.config.model,
        "weights": service.weights,  # which weights that name stands for; vLLM has no such field
        "max_model_len": service.max_model_len,
    }

    async def list_models(request: Request) -> Response:
        """The served model."""
        return JSONResponse({"object": "list", "data": [card]})

    async def get_model(request: Request) -> Response:
        """The served model, by its name."""
        service.check_model(request.path_params["model"])
        return JSONResponse(card)

    async def health(request: Request) -> Response:
        """Whether the server takes requests."""
        if service.is_draining:
            raise ShuttingDownError("The server is shutting down.")
        if service.is_dead:
            raise EngineDeadError("The engine has failed.")
        return Response()

    async def version(request: Request) -> Response:
        """The version of minivllm."""
        return JSONResponse({"version": __version__})

    return [
        Route("/v1/models", list_models),
        Route("/v1/models/{model:path}", get_model),  # a model's name can contain slashes
        Route("/health", health),
        Route("/version", version),
    ]


def openapi(routes: Sequence[Route]) -> Route:
    """Return the route of the API's description: all routes, and the forms of their requests."""
    types = [route.body_type for route in routes if isinstance(route, JsonRoute)]
    references, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    schemas = dict(zip(types, references, strict=True))
    paths: dict[str, Any] = {}
    answer = {"description": "The answer, or an error in OpenAI's format."}
    for route in routes:
        operation: dict[str, Any] = {
            "summary": (route.endpoint.__doc__ or "").partition("\n")[0],
            "responses": {"default": answer},
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in route.param_convertors
            ],
        }
        if is_post := isinstance(route, JsonRoute):
            content = {"application/json": {"schema": schemas[route.body_type]}}
            operation["requestBody"] = {"required": True, "content": content}
        paths[route.path_format] = {"post" if is_post else "get": operation}
    description = {
        "openapi": "3.1.0",
        "info": {"title": "minivllm", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }

    async def describe(request: Request) -> Response:
        return JSONResponse(description)

    return Route("/openapi.json", describe)
