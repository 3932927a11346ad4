"""Structured output over HTTP: every way to ask for a form gives outputs of that form."""

import json
from typing import Literal

import jsonschema_rs
import pytest
from pydantic import BaseModel, Field
from support.server.live_server import LiveServer, joined

MODEL = "tiny-random"
MESSAGES = [{"role": "user", "content": "Describe an animal."}]
SCHEMA = {
    "type": "object", "required": ["animal", "age"], "additionalProperties": False,
    "properties": {
        "animal": {"enum": ["fox", "hen"]}, "age": {"type": "integer", "minimum": 0, "maximum": 30},
    },
}  # fmt: skip
FORMAT = {"type": "json_schema", "json_schema": {"name": "animal", "schema": SCHEMA}}
CHOICES = ["fox", "hen"]
GRAMMAR = 'start: "fox" | "hen"'
WAYS = [
    {"response_format": FORMAT},
    {"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}},
    {"structured_outputs": {"json": json.dumps(SCHEMA), "whitespace_pattern": " "}},
    {"structured_outputs": {"regex": "fox|hen"}},
    {"structured_outputs": {"choice": CHOICES}},
    {"structured_outputs": {"grammar": GRAMMAR}},
    {"guided_json": SCHEMA},
    {"guided_regex": "fox|hen"},
    {"guided_choice": CHOICES},
    {"guided_grammar": GRAMMAR},
]


def fits(text: str) -> bool:
    return text in CHOICES or jsonschema_rs.is_valid(SCHEMA, json.loads(text))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: str(way)[:40])
def test_every_way_to_ask_gives_the_form_on_every_route(tiny_server: LiveServer, way: dict) -> None:
    fields = {"n": 2, "seed": 3, "max_tokens": 80, **way}
    client = tiny_server.openai()
    chat = client.chat.completions.create(model=MODEL, messages=MESSAGES, extra_body=fields)
    texts = [choice.message.content for choice in chat.choices]
    chunks = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, stream=True, extra_body=fields
    )
    assert joined(chunks, lambda choice: choice.delta.content or "") == dict(enumerate(texts))
    whole = client.completions.create(model=MODEL, prompt="An animal:", extra_body=fields)
    texts += [choice.text for choice in whole.choices]
    assert {choice.finish_reason for choice in (*chat.choices, *whole.choices)} == {"stop"}
    if "response_format" not in way:  # early vLLM did not have it
        with tiny_server.http() as http:
            answer = http.post("/generate", json={"prompt": "An animal:", **fields}).json()
        texts += [text.removeprefix("An animal:") for text in answer["text"]]
    assert all(map(fits, texts))


def test_openais_parse_returns_objects_of_a_pydantic_class(tiny_server: LiveServer) -> None:
    class Animal(BaseModel):
        animal: Literal["fox", "hen"]
        age: int = Field(ge=0, le=30)
        eats: list[Literal["corn", "mice"]] = Field(max_length=2)

    answer = tiny_server.openai().chat.completions.parse(
        model=MODEL, messages=MESSAGES, response_format=Animal, n=4, seed=1
    )
    assert all(isinstance(choice.message.parsed, Animal) for choice in answer.choices)
    assert len({choice.message.content for choice in answer.choices}) > 1


EXPLODING = "[a-z]{12}x+(a|aa|aaa|aaaa){5000}"
"""Its first twelve letters are cheap, so it passes the check before the request starts."""


def test_a_grammar_that_explodes_while_it_is_written_is_the_clients_mistake(tiny_server) -> None:
    body = {"prompt": "An animal:", "max_tokens": 40, "seed": 1}
    form = {"structured_outputs": {"regex": EXPLODING}}
    beside = tiny_server.post("/v1/completions", body).json()["choices"]
    answer = tiny_server.post("/v1/completions", body | form)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "structured_outputs")
    assert error["message"].startswith("structured_outputs.regex is too complex (")
    stream = tiny_server.post("/v1/completions", body | form | {"stream": True}).text
    assert error["message"] in stream
    assert tiny_server.post("/v1/completions", body).json()["choices"] == beside
    tiny_server.wait_until_idle()
