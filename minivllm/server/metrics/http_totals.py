"""`HttpTotals`: `http_requests_total` and what the process takes, as they stand beside vLLM's own
metrics.

vLLM's server has the first from `prometheus_fastapi_instrumentator`: labels `handler` (the route's
path, "none" where no route was reached), `status` ("2xx") and `method`; what monitors ask for all
the time is not counted. The second are the `process_*` of `prometheus_client`.

The easy thing to get wrong is who chooses the labels: a client may call any path by any method, and
each new label is kept for ever. So both come from short lists of ours.
"""

from prometheus_client import CollectorRegistry, Counter, ProcessCollector
from starlette.types import Scope

_NOT_COUNTED = frozenset({"/metrics", "/health", "/version"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class HttpTotals:
    """Counts into `registry`; for `middleware.RequestIds`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "http_requests_total",
            "HTTP requests, by the route that they reached, by how they ended and by method.",
            ("handler", "status", "method"),
            registry=registry,
        )
        ProcessCollector(registry=registry)

    def count(self, scope: Scope, status: int) -> None:
        """A request has ended."""
        if scope["path"] in _NOT_COUNTED:
            return
        route = scope.get("route")
        handler = "none" if route is None else route.path
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._requests.labels(handler, f"{status // 100}xx", method).inc()
