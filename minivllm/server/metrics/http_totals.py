"""`HttpTotals`: `http_requests_total` and process metrics, next to vLLM's own metrics.

In vLLM, `http_requests_total` comes from `prometheus_fastapi_instrumentator`. The labels are
`handler` (the route's path, or "none" if no route matched), `status` ("2xx") and `method`. Requests
from monitoring tools are not counted. Label values come from short fixed lists, because every new
value is kept for ever, and clients can send any path and method.
"""

from prometheus_client import CollectorRegistry, Counter, ProcessCollector
from starlette.types import Scope

_NOT_COUNTED = frozenset({"/metrics", "/health", "/version"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class HttpTotals:
    """Counts requests in `registry`; called by `middleware.RequestIds`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "http_requests_total",
            "HTTP requests by route, status class and method.",
            ("handler", "status", "method"),
            registry=registry,
        )
        ProcessCollector(registry=registry)

    def count(self, scope: Scope, status: int) -> None:
        if scope["path"] in _NOT_COUNTED:
            return
        endpoint = scope.get("endpoint")
        routes = scope["app"].routes if endpoint is not None else ()
        handler = next((route.path for route in routes if route.endpoint is endpoint), "none")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._requests.labels(handler, f"{status // 100}xx", method).inc()
