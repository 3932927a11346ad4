"""`GET /v1/models`, `/health`, `/version`: what is served, and whether it works.

A server with a dead engine still answers HTTP. `/health` must then return 503; otherwise a load
balancer would keep sending requests.
"""

from fastapi import APIRouter, Response

from minivllm import __version__
from minivllm.errors import EngineDeadError, ShuttingDownError
from minivllm.server.errors import ERROR_RESPONSES
from minivllm.server.protocol.other import ModelCard, ModelList, VersionResponse
from minivllm.server.serving import Serving


def router(serving: Serving) -> APIRouter:
    routes = APIRouter(responses=ERROR_RESPONSES)

    def card() -> ModelCard:
        return ModelCard(
            id=serving.model_name,
            created=serving.created,
            root=serving.service.config.model,
            weights=serving.service.weights,
            max_model_len=serving.service.max_model_len,
        )

    @routes.get("/v1/models")
    async def list_models() -> ModelList:
        return ModelList(data=[card()])

    # A model's name can contain slashes.
    @routes.get("/v1/models/{model:path}")
    async def get_model(model: str) -> ModelCard:
        serving.check_model(model)
        return card()

    @routes.get("/health", response_class=Response)
    async def health() -> Response:
        if serving.service.is_draining:
            raise ShuttingDownError("The server is shutting down.")
        if serving.service.is_dead:
            raise EngineDeadError("The engine has failed.")
        return Response()

    @routes.get("/version")
    async def version() -> VersionResponse:
        return VersionResponse(version=__version__)

    return routes
