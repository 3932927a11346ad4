"""Tests the structured outputs of OpenAI's client with a served model, as in OpenAI's guide.

Runs in its own environment, without minivllm. Arguments: the server's URL and the model's name.
"""

import json
import sys

import openai
from pydantic import BaseModel


class CalendarEvent(BaseModel):
    name: str
    date: str
    participants: list[str]


MESSAGES = [
    {"role": "system", "content": "Extract the event information."},
    {"role": "user", "content": "Alice and Bob are going to a science fair on Friday."},
]
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"enum": ["yes", "no"]}, "sure": {"type": "boolean"}},
    "required": ["answer", "sure"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": SCHEMA}}


def main(url: str, model: str) -> None:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    fixed = {"model": model, "temperature": 0, "max_tokens": 200}
    parsed = client.chat.completions.parse(
        messages=MESSAGES, response_format=CalendarEvent, **fixed
    )
    event = parsed.choices[0].message.parsed
    expect(isinstance(event, CalendarEvent), f"parse returned {event!r}")

    asked = {"messages": [{"role": "user", "content": "Is a fox an animal?"}], **fixed}
    whole = client.chat.completions.create(response_format=FORMAT, **asked)
    answer = json.loads(whole.choices[0].message.content)
    expect(answer["answer"] in ("yes", "no") and isinstance(answer["sure"], bool), repr(answer))
    with client.chat.completions.stream(response_format=FORMAT, **asked) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
    expect("".join(deltas) == whole.choices[0].message.content, f"streamed {deltas!r}")

    try:
        bad = {"name": "a", "schema": {"type": "objekt"}}
        format_ = {"type": "json_schema", "json_schema": bad}
        client.chat.completions.create(response_format=format_, **asked)
    except openai.BadRequestError as error:
        expect(error.param == "response_format", f"the error does not name the field: {error}")
    else:
        raise SystemExit("an invalid schema was accepted")


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SystemExit(otherwise)


if __name__ == "__main__":
    main(*sys.argv[1:3])
