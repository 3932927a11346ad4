"""Streamed text equals whole text for every prompt and stop string.

Tokens are bytes, most of them invalid UTF-8, and stop strings are cut out of the output.
"""

import json

import httpx2
from hypothesis import given, settings
from hypothesis import strategies as st

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=24)
LETTERS = st.text("ab🤗é", min_size=1, max_size=5)


@given(prompt=TEXT, seed=st.integers(0, 2**31), data=st.data(), include=st.booleans())
@settings(max_examples=10, deadline=None)
def test_a_stream_joins_to_the_whole_answer(tiny_server, prompt, seed, data, include):
    fields = {"prompt": prompt, "seed": seed, "max_tokens": 20}
    fields["include_stop_str_in_output"] = include
    with tiny_server.http() as http:
        text = choice_of(http, fields)["text"]
        begin = data.draw(st.integers(0, len(text)))
        cut = text[begin : begin + data.draw(st.integers(1, 4))]
        fields["stop"] = [stop for stop in (cut, cut + "never", data.draw(LETTERS)) if stop]
        whole = choice_of(http, fields)
        pieces, ended = [], []
        for choice in streamed_choices(http, fields):
            assert not ended
            pieces.append(choice["text"])
            if choice["finish_reason"] is not None:
                ended.append((choice["finish_reason"], choice["stop_reason"]))
    assert "".join(pieces) == whole["text"]
    assert ended == [(whole["finish_reason"], whole["stop_reason"])]
    if not include:
        assert not any(stop in whole["text"] for stop in fields["stop"])


def choice_of(http: httpx2.Client, fields: dict) -> dict:
    return http.post("/v1/completions", json=fields).raise_for_status().json()["choices"][0]


def streamed_choices(http: httpx2.Client, fields: dict) -> list[dict]:
    """Read a stream; each event must be valid UTF-8 and JSON."""
    text = http.post("/v1/completions", json=fields | {"stream": True}).content.decode()
    events = text.removesuffix("\n\n").split("\n\n")
    assert events.pop() == "data: [DONE]"
    return [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
