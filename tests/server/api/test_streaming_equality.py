"""Streamed text equals whole text for every prompt, stop string and chunking, all the way from the
sampler to a client.

The detokenizer and the stop strings have properties of their own
(`tests/engine/test_detokenizer.py`, `tests/engine/test_stop_strings.py`). Here they are taken
together, as a request takes them, and then over HTTP: with a model whose tokens are bytes, most of
which are no characters, and stop strings cut out of what it said.
"""

import codecs
import json

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.server.live_server import LiveServer

from minivllm.engine.detokenizer import IncrementalDetokenizer
from minivllm.engine.stop_strings import StopStringChecker
from minivllm.runtime.text.tokenizer import Tokenizer

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=24)
LETTERS = st.text("ab🤗é", min_size=1, max_size=5)


@pytest.fixture(scope="module")
def tokenizer(tiny_random_path) -> Tokenizer:
    return Tokenizer.from_directory(tiny_random_path)


@given(
    text=st.text("ab🤗é", max_size=40),
    stops=st.lists(LETTERS, min_size=1, max_size=3),
    include=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_a_stream_shows_whole_characters_and_holds_back_less_than_a_stop_string(
    tokenizer, text, stops, include
):
    detokenizer, checker = IncrementalDetokenizer(tokenizer), StopStringChecker(stops, include)
    longest = max(map(len, stops))
    shown, stop, seen = "", None, b""
    for token_id in tokenizer.encode(text):  # one a byte
        seen += bytes([tokenizer_byte(tokenizer, token_id)])
        check = checker.feed(detokenizer.append(token_id))
        shown += check.text
        assert text.startswith(shown)  # half a character would show as U+FFFD
        if (stop := check.stop) is not None:
            break
        # all but the bytes of a character that has only begun
        complete = seen.decode(errors="ignore")
        assert len(complete) - len(shown) <= longest - 1
    else:
        shown += checker.finish(detokenizer.finish()).text
    ends = [(text.find(one) + len(one), stops.index(one)) for one in stops if one in text]
    if not ends:
        assert (shown, stop) == (text, None)
    else:
        end, first = min(ends)
        assert stop == stops[first]
        assert shown == text[: end if include else end - len(stop)]


def tokenizer_byte(tokenizer: Tokenizer, token_id: int) -> int:
    return BYTES[tokenizer._backend.id_to_token(token_id)]


def _bytes_by_name() -> dict[str, int]:
    """GPT-2's printable stand-ins for bytes, which byte-level vocabularies are written in."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}


BYTES = _bytes_by_name()


@given(prompt=TEXT, seed=st.integers(0, 2**31), data=st.data(), include=st.booleans())
@settings(max_examples=10, deadline=None)
def test_over_http_a_stream_in_any_chunks_joins_to_the_whole_answer(
    tiny_server: LiveServer, prompt: str, seed: int, data: st.DataObject, include: bool
) -> None:
    chunk = data.draw(st.sampled_from([1, 7, 65536]))
    fields = {
        "prompt": prompt,
        "seed": seed,
        "max_tokens": 20,
        "include_stop_str_in_output": include,
    }
    with tiny_server.http() as http:
        text = choice_of(http, fields)["text"]
        begin = data.draw(st.integers(0, len(text)))
        cut = text[begin : begin + data.draw(st.integers(1, 4))]
        fields["stop"] = [stop for stop in (cut, cut + "never", data.draw(LETTERS)) if stop]
        whole = choice_of(http, fields)
        pieces, ended = [], []
        for choice in streamed_choices(http, fields, chunk):
            assert not ended
            pieces.append(choice["text"])
            if choice["finish_reason"] is not None:
                ended.append((choice["finish_reason"], choice["stop_reason"]))
    assert "".join(pieces) == whole["text"]
    assert ended == [(whole["finish_reason"], whole["stop_reason"])]
    if not include:
        assert not any(stop in whole["text"] for stop in fields["stop"])


def test_over_http_a_character_that_is_never_finished_can_be_a_stop_string(
    tiny_server: LiveServer, tokenizer
) -> None:
    """Its U+FFFD shows at the end only, when no token can finish it any more."""
    # begins a character of four bytes
    name = next(name for name, byte in BYTES.items() if byte == 0xF0)
    half = tokenizer._backend.token_to_id(name)
    fields = {"prompt": "a", "max_tokens": 2, "temperature": 0, "logit_bias": {str(half): 100}}
    with tiny_server.http() as http:
        assert choice_of(http, fields)["text"] == "\ufffd\ufffd"
        for include, text in ((False, ""), (True, "\ufffd\ufffd")):
            stopping = fields | {"stop": ["\ufffd\ufffd"], "include_stop_str_in_output": include}
            whole = choice_of(http, stopping)
            assert (whole["text"], whole["finish_reason"], whole["stop_reason"]) == (
                text,
                "stop",
                "\ufffd\ufffd",
            )
            choices = streamed_choices(http, stopping, 65536)
            assert "".join(choice["text"] for choice in choices) == text
            assert choices[-1]["finish_reason"] == "stop"


def choice_of(http: httpx2.Client, fields: dict) -> dict:
    return http.post("/v1/completions", json=fields).raise_for_status().json()["choices"][0]


def streamed_choices(http: httpx2.Client, fields: dict, chunk: int) -> list[dict]:
    """The choices of a stream that is read `chunk` bytes at a time; each event must be whole UTF-8
    and whole JSON.
    """
    decoder, text = codecs.getincrementaldecoder("utf-8")(), ""
    with http.stream("POST", "/v1/completions", json=fields | {"stream": True}) as answer:
        for piece in answer.iter_bytes(chunk):
            text += decoder.decode(piece)
    events = text.removesuffix("\n\n").split("\n\n")
    assert events.pop() == "data: [DONE]"
    return [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
