"""Every bad request gets one clear sentence in OpenAI's shape, and nothing is queued."""

import json
from collections.abc import Iterator

import pytest
from support.server.live_server import LiveServer, serving


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with serving() as server:
        yield server


COMPLETIONS = [
    # (fields, the named parameter, a word of the sentence)
    ({}, "prompt", "missing"),
    ({"prompt": ""}, "prompt", "empty"),
    ({"prompt": [""]}, "prompt", "empty"),
    ({"prompt": ["a", 1]}, "prompt", "mixes"),
    ({"prompt": [[1], [10**50]]}, "prompt", "token id"),
    ({"prompt": [100]}, "prompt", "token id"),
    ({"prompt": ["x"] * 65}, "prompt", "64"),
    ({"prompt": "x" * 300}, "prompt", "200"),
    ({"prompt": "x", "max_tokens": 5, "min_tokens": 6}, "min_tokens", "max_tokens"),
    ({"prompt": "x", "n": 9}, None, "max_num_seqs"),
    ({"prompt": "x", "n": 3, "best_of": 2}, "best_of", "best_of"),
    ({"prompt": "x", "logit_bias": {"100": 1}}, "logit_bias", "token id"),
    ({"prompt": "x", "stop_token_ids": [100]}, "stop_token_ids", "token id"),
    ({"prompt": "x", "priority": 1}, "priority", "priority"),
    ({"prompt": "x", "use_beam_search": True}, "use_beam_search", "two"),
    (
        {"prompt": "x", "use_beam_search": True, "n": 2, "temperature": 0.5},
        "use_beam_search",
        "temperature",
    ),
    ({"prompt": "x", "stream_options": {"include_usage": True}}, None, "stream"),
    ({"prompt": "x", "stream": True, "stream_options": {"foo": 1}}, "stream_options.foo", "foo"),
    ({"prompt": "x", "model": "gpt-4"}, "model", "gpt-4"),
    ({"prompt": "x", "prompt_logprobs": 1, "stream": True}, "prompt_logprobs", "stream"),
    ({"prompt": "x", "max_tokens": 0, "echo": True, "min_tokens": 1}, "max_tokens", "min_tokens"),
    ({"prompt": "x", "guided_regex": "(a+)+"}, "guided_regex", "guided_regex"),
    ({"prompt": "x", "\x1b[31m": 1}, "\x1b[31m", "Unknown"),
]


def check_refusal(
    live: LiveServer, path: str, content: bytes, kind: str = "application/json"
) -> dict:
    before = len(live.events)
    with live.http() as http:
        answer = http.post(path, content=content, headers={"Content-Type": kind})
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


@pytest.mark.parametrize(
    ("fields", "param", "word"), COMPLETIONS, ids=lambda value: str(value)[:40]
)
def test_a_bad_completion_request_is_refused_with_its_reason(live, fields, param, word):
    error = check_refusal(live, "/v1/completions", json.dumps(fields).encode())
    assert error["status"] == (404 if param == "model" else 400)
    assert word in error["message"]
    assert param is None or error["param"].split(".")[0] == param.split(".")[0]


BODIES = [
    b"", b"{", b"null", b"[]", b"5", b'"text"', b'{"prompt": NaN}',
    b'{"prompt": "x", "temperature": Infinity}', b'{"prompt": "x", "temperature": -Infinity}',
    b'{"prompt": "x", "temperature": 1e999}', b"\xff\xfe", b'{"prompt": "x"} {"prompt": "y"}',
    b'{"prompt": "x", "seed": ' + b"9" * 5000 + b"}", b"[" * 100_000,
    b'{"a":' * 50 + b"1" + b"}" * 50, b'{"prompt": "' + b'\\"' * 100_000,
    b'{"prompt": "\\ud800", "max_tokens": 3}',
    json.dumps({str(i): i for i in range(2000)}).encode(),
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:24]))
def test_a_body_that_is_not_valid_json_is_refused(live, body):
    assert check_refusal(live, "/v1/completions", body)["status"] == 400


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/generate", "/tokenize", "/detokenize"])
def test_every_route_reads_its_body_the_same_way(live, path):
    for body in (b"{", b"[]", b'{"prompt": NaN}', b"\xff\xfe", b"[" * 100_000):
        assert check_refusal(live, path, body)["status"] == 400


@pytest.mark.parametrize("kind", ["text/plain", ""])
def test_only_the_old_generate_takes_json_under_another_name(live, kind):
    body = json.dumps({"prompt": "x", "max_tokens": 2}).encode()
    assert check_refusal(live, "/v1/completions", body, kind)["status"] == 415
    with live.http() as http:
        assert (
            http.post("/generate", content=body, headers={"Content-Type": kind}).status_code == 200
        )
    live.wait_until_idle()
