"""Every bad request gets one clear sentence in OpenAI's shape, and nothing is queued."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.patience import SOON
from support.server.in_process import in_process
from support.server.live_server import LiveServer

from minivllm.errors import InvalidSamplingParamsError
from minivllm.structured_output import manager


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with in_process() as server:
        yield server


def schema(schema: object, **more: object) -> dict:
    return {"type": "json_schema", "json_schema": {"name": "form", "schema": schema, **more}}


BEAMS = {"use_beam_search": True, "n": 2}
BAD = [
    # (fields besides a good prompt, the named parameter, a part of the sentence)
    ({"prompt": ""}, "prompt", "length >= 1"),
    ({"prompt": ["a", 1]}, "prompt", "mixes"),
    ({"prompt": [[1], [-1]]}, "prompt[1][0]", ">= 0"),
    ({"prompt": [[1], [100]]}, "prompt", "token id"),
    ({"prompt": ["x"] * 65}, "prompt", "64"),
    ({"prompt": ["fits", "x" * 200, "fits"]}, "prompt", "200"),  # and none of them is queued
    ({"prompt": ["fits", "x" * 201, "fits"]}, "prompt", "200"),
    ({"max_tokens": 5, "min_tokens": 6}, "min_tokens", "max_tokens"),
    ({"max_tokens": 0}, "max_tokens", "echo"),
    ({"max_tokens": "5"}, "max_tokens", "expected `int | null`, got `str`"),
    ({"n": 9}, None, "at most 8 at once"),
    ({"n": True}, "n", "got `bool`"),
    ({"n": 3, "best_of": 2}, "best_of", "best_of"),
    ({"logit_bias": {"100": 1}}, "logit_bias", "token id"),
    ({"stop": [""] * 2}, "stop[0]", "length >= 1"),
    ({"priority": 1}, "priority", "priority"),
    ({**BEAMS, "temperature": 0.5}, "use_beam_search", "temperature"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "stream"),
    ({"stream": True, "stream_options": {"foo": 1}}, "stream_options.foo", "foo"),
    ({"model": "gpt-4"}, "model", "gpt-4"),
    ({"\x1b[31m": 1}, "\x1b[31m", "Unknown"),
    # ---- forms of the output: the sentences use the names of the client's fields ----
    ({"response_format": {"type": "json"}}, "response_format.type", "'json'"),
    ({"response_format": schema({"type": "objekt"})}, "response_format",
     "response_format.json_schema.schema is not valid (Invalid type: objekt): correct it."),
    ({"response_format": schema({"description": "x" * 10**6})}, "response_format", "100,000"),
    ({"guided_regex": "(a"}, "guided_regex", "guided_regex is not valid (unclosed group)"),
    ({"structured_outputs": {"grammar": "start: foo"}}, "structured_outputs",
     'structured_outputs.grammar is not valid (unknown name: "foo"): correct it.'),
    ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs", "exactly one"),
    ({"structured_outputs": {"json": '{"not":' * 10_000}}, "structured_outputs",
     "structured_outputs.json"),
    ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, "response_format",
     "response_format and guided_regex both set the form"),
    ({**BEAMS, "response_format": {"type": "json_object"}}, "use_beam_search", "response_format"),
    ({"min_tokens": 2, "guided_choice": ["a"]}, "min_tokens", "guided_choice"),
]  # fmt: skip


def check_refusal(live: LiveServer, path: str, content: bytes) -> dict:
    before = len(live.events)
    with live.http() as http:
        answer = http.post(path, content=content)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json().keys() == {"error"}
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["message"].endswith((".", "...")) and 10 < len(error["message"]) < 650
    assert len(answer.content) < 2000
    assert len(live.events) == before
    assert live.service.num_unfinished == live.service.num_waiting == 0
    return error | {"status": answer.status_code}


@pytest.mark.parametrize(("fields", "param", "words"), BAD, ids=range(len(BAD)))
def test_a_bad_request_is_refused_under_the_clients_name_in_a_sentence(live, fields, param, words):
    error = check_refusal(live, "/v1/completions", json.dumps({"prompt": "x", **fields}).encode())
    assert error["status"] == (404 if param == "model" else 400)
    assert error["param"] == param
    assert words in error["message"] and error["message"].count(". ") == 0
    assert (error["code"] == "context_length_exceeded") == (words == "200")
    assert "dictionary" not in error["message"], "the client sent JSON"


def test_a_grammar_is_checked_beside_the_engine_and_the_event_loop(live, monkeypatch):
    checking, done = threading.Event(), threading.Event()

    def check(specification: object) -> None:
        checking.set()
        assert done.wait(SOON)
        raise InvalidSamplingParamsError("structured_outputs: regex is slow to check.")

    monkeypatch.setattr(manager, "check", check)
    with live.http() as http, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(
            http.post, "/v1/completions", json={"prompt": "x", "guided_regex": "slow"}
        )
        assert checking.wait(SOON)
        answer = http.post("/v1/completions", json={"prompt": "x", "max_tokens": 3})
        assert answer.json()["usage"]["completion_tokens"] == 3
        assert http.get("/health").status_code == 200
        done.set()
        assert slow.result().json()["error"]["message"] == "guided_regex is slow to check."
    live.wait_until_idle()


NO_JSON = [
    b"", b"{", b'{"prompt": NaN}', b'{"prompt": "x", "temperature": -Infinity}', b"\xff\xfe",
    b'{"prompt": "x"} {"prompt": "y"}', b'{"prompt": "x", "guided_json": ' + b'{"a":' * 100_000,
    b'{"prompt": "' + b'\\"' * 100_000,
]  # fmt: skip
BODIES = [
    *NO_JSON, b"[]", b"5", b'{"prompt": "x", "temperature": 1e999}', b"[" * 100_000,
    b'{"prompt": "x", "seed": ' + b"9" * 5000 + b"}",
    json.dumps({str(i): i for i in range(2000)}).encode(),
]  # fmt: skip


@pytest.mark.parametrize(
    "path", ["/v1/completions", "/v1/chat/completions", "/generate", "/tokenize", "/detokenize"]
)
def test_a_body_that_is_not_valid_json_is_refused_on_every_route(live, path):
    for body in BODIES:
        error = check_refusal(live, path, body)
        assert error["status"] == 400
        # Another route does not know the prompt, and says so first.
        if body in NO_JSON and path in ("/v1/completions", "/generate"):
            assert error["code"] == "invalid_json"
