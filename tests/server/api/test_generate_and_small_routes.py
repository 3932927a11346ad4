"""vLLM's early `/generate`, and the routes about model and tokenizer."""

import json
from itertools import pairwise

import pytest

from minivllm import __version__


@pytest.mark.parametrize("accept", ["*/*", "application/x-ndjson"])
@pytest.mark.parametrize("beams", [False, True])
def test_a_streamed_generate_repeats_all_texts_so_far(tiny_server, accept, beams):
    body = {"prompt": "San Francisco is a", "n": 4, "max_tokens": 8}
    body |= {"use_beam_search": True, "temperature": 0} if beams else {"seed": 1}
    with tiny_server.http() as http:
        whole = http.post("/generate", json=body).json()["text"]
        streamed = http.post("/generate", json=body | {"stream": True}, headers={"Accept": accept})
    delimiter = b"\n" if "ndjson" in accept else b"\0"
    assert streamed.content.endswith(delimiter)
    pieces = [json.loads(piece)["text"] for piece in streamed.content.split(delimiter)[:-1]]
    assert len(pieces) == 8
    assert {len(texts) for texts in pieces} == {4} and pieces[-1] == whole
    assert all(text.startswith(body["prompt"]) for texts in pieces for text in texts)
    if not beams:
        for before, after in pairwise(pieces):
            assert all(map(str.startswith, after, before))


def test_tokenize_and_detokenize_are_inverse(tiny_server):
    with tiny_server.http() as http:
        assert http.get("/version").json() == {"version": __version__}
        told = http.post("/tokenize", json={"prompt": "Grüße", "return_token_strs": True}).json()
        assert told["count"] == len(told["tokens"]) == len(told["token_strs"]) == 7
        assert told["max_model_len"] == 2048
        text = http.post("/detokenize", json={"tokens": told["tokens"]}).json()
        assert text == {"prompt": "Grüße"}
        plain = http.post("/tokenize", json={"prompt": "Grüße", "add_special_tokens": False}).json()
        assert plain == {"count": 7, "max_model_len": 2048, "tokens": told["tokens"]}
        messages = [{"role": "user", "content": "Hi"}]
        chat = http.post("/tokenize", json={"messages": messages}).json()["tokens"]
        assert chat == tiny_server.engine.tokenizer.apply_chat_template(messages)
        assert http.post("/detokenize", json={"tokens": []}).json() == {"prompt": ""}
        refused = http.post("/detokenize", json={"tokens": [3, 10**6]})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_value")
        both = {"prompt": "Hi", "messages": messages}
        assert http.post("/tokenize", json=both).json()["error"]["param"] == "prompt"
        assert http.post("/tokenize", json={"prompt": "x", "model": "y"}).status_code == 404
        info = http.get("/tokenizer_info").json()
        assert info["eos_token"] == "<|im_end|>"
