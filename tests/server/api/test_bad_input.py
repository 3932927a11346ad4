"""Every bad request gets one clear sentence in OpenAI's shape, and nothing is queued."""

import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.patience import SOON
from support.server.live_server import LiveServer, serving

from minivllm.errors import InvalidSamplingParamsError
from minivllm.structured_output import manager


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
    ({"prompt": "x", "\x1b[31m": 1}, "\x1b[31m", "Unknown"),
]

ENDLESS = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
DESCRIBED = {"type": "object", "description": "x" * 1_000_000}


def schema(schema: object, **more: object) -> dict:
    return {"type": "json_schema", "json_schema": {"name": "form", "schema": schema, **more}}


# The exact sentences: they use the names of the client's fields.
FORMS = [
    (
        {"response_format": schema({"type": "objekt"})},
        "response_format.json_schema.schema is not valid (Invalid type: objekt): correct it.",
    ),
    (
        {"response_format": schema({"uniqueItems": True})},
        'response_format.json_schema.schema is not valid (Unimplemented keys: ["uniqueItems"]):'
        " correct it.",
    ),
    (
        {"response_format": schema(DESCRIBED)},
        "response_format.json_schema.schema has 1,000,037 characters: send at most 100,000.",
    ),
    (
        {"response_format": schema({"enum": ["abcdefg"] * 90_000})},
        "response_format has more than 20,000 strings and brackets: send less.",
    ),
    (
        {"guided_json": json.loads('{"not":' * 30 + "{}" + "}" * 30)},
        'guided_json is not valid (Unimplemented keys: ["not"]): correct it.',
    ),
    (
        {"guided_json": json.loads('{"not":' * 31 + "{}" + "}" * 31)},
        "guided_json is nested more than 32 levels deep: nest it less.",
    ),
    (
        {"guided_json": ENDLESS},
        "guided_json requires an endless value: let a property of the cycle be optional.",
    ),
    ({"guided_regex": "(a"}, "guided_regex is not valid (unclosed group): correct it."),
    (
        {"guided_regex": "(((a{1000}){1000}){1000})"},
        "guided_regex is too complex (lexer error: too many expressions constructed): simplify it.",
    ),
    (
        {"guided_grammar": 'start: "a" start'},
        "guided_grammar has no way to end: add an alternative without recursion.",
    ),
    (
        {"structured_outputs": {"grammar": "start: foo"}},
        'structured_outputs.grammar is not valid (unknown name: "foo"): correct it.',
    ),
    (
        {"structured_outputs": {"regex": "a", "choice": ["b"]}},
        "structured_outputs needs exactly one of json, regex, choice, grammar, json_object; got"
        " regex and choice.",
    ),
    (
        {"response_format": {"type": "json_object"}, "guided_regex": "a"},
        "response_format and guided_regex both set the form of the output: send only one of them.",
    ),
    (
        {"guided_choice": ["a"], "structured_outputs": {"regex": "a"}},
        "structured_outputs and guided_choice both set the form of the output: send only one of"
        " them.",
    ),
    (
        {"response_format": {"type": "json_schema"}},
        "response_format: the type json_schema and the field json_schema belong together: send both"
        " or neither.",
    ),
    (
        {"response_format": {"type": "structural_tag"}},
        "response_format.type: it should be 'text', 'json_object' or 'json_schema'; got"
        " 'structural_tag'.",
    ),
    (
        {"use_beam_search": True, "n": 2, "response_format": {"type": "json_object"}},
        "use_beam_search does not support response_format: leave one of them out.",
    ),
    (
        {"min_tokens": 2, "guided_choice": ["a"]},
        "min_tokens contradicts guided_choice, whose grammar says where the output may end: leave"
        " min_tokens out.",
    ),
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


@pytest.mark.parametrize(("fields", "sentence"), FORMS, ids=lambda value: str(value)[:60])
def test_a_form_that_cannot_work_is_refused_under_the_clients_name(live, fields, sentence):
    error = check_refusal(live, "/v1/completions", json.dumps({"prompt": "x", **fields}).encode())
    assert (error["status"], error["message"]) == (400, sentence)
    assert (
        error["param"].partition(".")[0] == sentence.replace(".", " ").replace(":", " ").split()[0]
    )


def _fields(field: str, *values: object) -> list[tuple[dict, str]]:
    return [({field: value}, field) for value in values]


WRONG_FORMS = [
    *_fields("response_format", 1, "json", True, []),
    *(({"response_format": value}, "response_format.type")
      for value in ({}, {"type": None}, {"type": 5}, {"type": "json"})),
    *_fields("response_format", {"type": "json_schema", "json_schema": None},
             {"type": "json_object", "json_schema": {"name": "f", "schema": {}}},
             {"type": "text", "json_schema": {"name": "f", "schema": {}}}),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
     "response_format.json_schema.name"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}},
     "response_format.json_schema.name"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "f"}}},
     "response_format.json_schema.schema"),
    *(({"response_format": schema(value)}, "response_format.json_schema.schema")
      for value in (
          5, "{}", [], None, True, {"type": 5}, {"properties": []}, {"required": "a"},
          {"required": [1]}, {"enum": []}, {"enum": 3}, {"minimum": "a"}, {"$ref": 5},
          {"type": "integer", "minimum": 3, "maximum": 2}, {"minLength": -1, "type": "string"},
          {"type": "string", "minLength": 5, "maxLength": 2}, {"pattern": "("},
          {"pattern": "a(?=b)"}, {"pattern": r"(a)\1"}, {"$ref": "#"}, {"$ref": "#/nowhere"},
          {"$ref": "http://example.org/schema"}, {"if": {}, "then": {}}, {"format": "nothing"},
          {"properties": {"a": False}, "required": ["a"], "type": "object"})),
    ({"response_format": schema({}, strict="yes")}, "response_format.json_schema.strict"),
    ({"response_format": schema({}, extra=1)}, "response_format.json_schema.extra"),
    *_fields("structured_outputs", 1, "a", [], {}, {"choice": None}, {"json_object": False},
             {"json": {}, "regex": "a"}, {"regex": "a", "disable_any_whitespace": True},
             {"regex": "a", "whitespace_pattern": " "}),
    *(({"structured_outputs": value}, f"structured_outputs.{next(iter(value))}")
      for value in (
          {"json": 5}, {"json": []}, {"json": True}, {"json": ""}, {"json": "{"}, {"json": "[]"},
          {"json": "null"}, {"json": "x" * 1_000_000}, {"json": '{"items":' * 10_000},
          {"json": '{"not":' * 10_000 + "{}" + "}" * 10_000}, {"regex": 5}, {"regex": r"(a)\1"},
          {"regex": "a(?=b)"}, {"regex": "(?<!a)b"}, {"regex": r"\b"}, {"regex": r"[^\s\S]"},
          {"regex": "a{3,1}"}, {"regex": "a" * 20_000}, {"choice": []}, {"choice": "a"},
          {"choice": ["a", 3]}, {"choice": {"a": 1}}, {"grammar": ""}, {"grammar": 5},
          {"grammar": "start: start"}, {"grammar": 'start: start "a"'},
          {"grammar": "root ::= root"}, {"grammar": "start: a\na: b\nb: a"},
          {"grammar": "start: /(/"}, {"grammar": "%import nothing.X\nstart: X"},
          {"grammar": 'start: "a"\nstart: "b"'}, {"json_object": "yes"}, {"json_object": 1},
          {"structural_tag": "{}"}, {"whitespace_pattern": 5, "json": {}},
          {"disable_any_whitespace": "no", "json": {}})),
    ({"structured_outputs": {"json": {}, "whitespace_pattern": "("}},
     "structured_outputs: whitespace_pattern"),
    *_fields("guided_json", 5, "{", '{"items":' * 10_000),
    *_fields("guided_regex", 5, [], "("),
    *_fields("guided_choice", "a", [], [1, 2]),
    *_fields("guided_grammar", {}, "", "start: foo"),
    *_fields("guided_decoding_backend", "xgrammar"),
    ({"ignore_eos": True, "guided_regex": "a"}, "ignore_eos"),
]  # fmt: skip


def test_every_wrong_form_names_its_field_in_one_sentence_and_the_engine_goes_on(live):
    """Processor time stands for time here, because other tests may be running beside this one."""
    for fields, place in WRONG_FORMS:
        began = time.process_time()
        body = json.dumps({"prompt": "x", **fields}).encode()
        error, given = check_refusal(live, "/v1/completions", body), str(fields)[:200]
        assert time.process_time() - began < 1.0, given
        assert error["status"] == 400, given
        assert place in error["message"] and error["message"].count(". ") == 0, (given, error)
        assert re.match(r"\w+", error["param"])[0] == re.match(r"\w+", place)[0], given
        assert "dictionary" not in error["message"], "the client sent JSON"
    with live.http() as http:
        answer = http.post("/v1/completions", json={"prompt": "x", "max_tokens": 3})
    assert answer.json()["usage"]["completion_tokens"] == 3
    live.wait_until_idle()


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
