"""Schemathesis over our own `/openapi.json`: no 5xx, and every error in OpenAI's shape.

Coverage (each schema keyword met and broken) and fuzzing. Each request names our model: otherwise
the server would refuse them all for this one reason, and the run would test nothing.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.server.live_server import LiveServer, serving

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine

SETTINGS = """
seed = 1

[generation]
deterministic = true
max-examples = 1
no-shrink = true
database = "none"

[phases.stateful]
enabled = false

[checks.positive_data_acceptance]
# Values that fit the schema one by one may contradict one another.
expected-statuses = ["2xx", "400", "404"]
"""


@pytest.fixture(scope="module")
def short_server() -> Iterator[LiveServer]:
    """A model with a short context, which ends chats without a token limit."""
    config = EngineConfig(
        model="tiny-random", dtype="float32", num_gpu_blocks_override=200, max_model_len=64,
        block_size=8, check_invariants=True,
    )  # fmt: skip
    with serving(LLMEngine.from_config(config)) as live:
        yield live


@schemathesis.hook
def before_call(context, case, kwargs) -> None:
    if not isinstance(body := case.body, dict):
        return
    if isinstance(name := body.get("model"), str) and len(name) <= 256:
        body["model"] = "tiny-random"
    # Limit the answer, which would cost more than the rest of the request.
    if not case.path.endswith("tokenize") and "max_completion_tokens" not in body:
        body.setdefault("max_tokens", 1)
    # Random calls and their results never fit together, so only requests with tools keep them.
    if not body.get("tools") and isinstance(messages := body.get("messages"), list):
        for message in (message for message in messages if isinstance(message, dict)):
            message.pop("tool_calls", None)
            message.pop("tool_call_id", None)
            if message.get("role") == "tool":
                message["role"] = "user"


@schemathesis.check
def errors_are_in_openais_shape(ctx, response, case) -> None:
    if response.status_code < 400:
        return
    assert response.status_code < 500
    body = response.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    assert body["error"]["message"].strip()
    assert body["error"]["type"] == "invalid_request_error"


class Run:
    def __init__(self, server: LiveServer) -> None:
        self.failures: list[str] = []
        self.phases: set[str] = set()
        self.statuses: dict[str, Counter[int]] = defaultdict(Counter)
        self.params: dict[str, set[str]] = defaultdict(set)
        config = SchemathesisConfig.from_str(SETTINGS)
        self.schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json", config=config)

        for event in from_schema(self.schema).execute():
            match event:
                case events.ScenarioFinished():
                    self._take(event)
                case events.NonFatalError():
                    self.failures.append(f"{event.label}: {event.value!r}")
                case events.FatalError():
                    raise event.exception

    def _take(self, event: events.ScenarioFinished) -> None:
        self.phases.add(event.phase.name)
        label, recorder = event.recorder.label, event.recorder
        for case_id, interaction in recorder.interactions.items():
            request, response = interaction.request, interaction.response
            if response is None:
                self.failures.append(f"{label}: no answer to {request.body!r}")
                continue
            self.statuses[label][response.status_code] += 1
            if response.status_code == 400 and (
                param := json.loads(response.content)["error"]["param"]
            ):
                self.params[label].add(re.split(r"[.\[]", param)[0])
            self.failures += [
                f"{label}: {check.name}: {check.failure_info.failure}\n{request.method}"
                f" {request.uri} {request.body!r}\n{response.status_code} {response.content!r}"
                for check in recorder.checks.get(case_id, [])
                if check.failure_info is not None
            ]


def parameters(schema: dict, path: str) -> set[str]:
    """The names of the body parameters of an operation."""
    body = schema["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return set(schema["components"]["schemas"][body["$ref"].rpartition("/")[2]]["properties"])


def check(run: Run) -> None:
    assert not run.failures, "\n\n".join(run.failures[:10])
    assert {"COVERAGE", "FUZZING"} <= run.phases
    schema = run.schema.raw_schema
    paths = schema["paths"].items()
    labels = {f"{method.upper()} {path}" for path, methods in paths for method in methods}
    assert run.statuses.keys() == labels
    for label, statuses in run.statuses.items():
        assert statuses[200] > 0, label
        assert statuses[405] > 0, label
        method, path = label.split(" ")
        if method == "POST":
            assert parameters(schema, path) <= run.params[label], label


def test_no_request_gets_a_5xx_and_every_error_is_in_openais_shape(short_server):
    check(Run(short_server))
    short_server.wait_until_idle()
    assert short_server.num_free_blocks == 200
