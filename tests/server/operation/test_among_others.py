"""A request over HTTP gets the text that it gets alone, whoever is served beside it, and the server calls nobody."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.server.live_server import LiveServer

NEEDLE = {"prompt": "A needle in a haystack is", "max_tokens": 12, "ignore_eos": True, "logprobs": 2}


def ask(live: LiveServer, body: dict) -> dict:
    with live.http() as http:
        answer = http.post("/v1/completions", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"][0]


def test_a_text_is_the_same_alone_and_in_a_crowd(tiny_server: LiveServer) -> None:
    needle = NEEDLE | {"temperature": 1.0, "seed": 3}
    alone = ask(tiny_server, needle)
    crowd = [{"prompt": f"{i} straw" * (1 + i % 5), "max_tokens": 5 + i, "temperature": 1.0} for i in range(14)]
    with ThreadPoolExecutor(16) as pool:
        others = [pool.submit(ask, tiny_server, body) for body in crowd]
        asked = [pool.submit(ask, tiny_server, needle) for _ in range(2)]
        for answer in (one.result() for one in asked):
            assert (answer["text"], answer["logprobs"]["tokens"]) == (alone["text"], alone["logprobs"]["tokens"])
            # Another batch size changes a product's last bits.
            assert answer["logprobs"]["token_logprobs"] == pytest.approx(alone["logprobs"]["token_logprobs"], abs=1e-4)
        for other in others:
            other.result()


def test_the_server_opens_no_connection_to_anybody(tiny_server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []
    whole = socket.socket.connect

    def connect(self: socket.socket, address: object) -> None:
        called.append(address)
        whole(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    url = "http://localhost:9/x.png"
    bodies = [
        {"messages": [{"role": "user", "content": f"see {url}"}], "max_tokens": 2},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]},
    ]
    port = int(tiny_server.url.rpartition(":")[2])
    with tiny_server.http() as http:
        assert [http.post("/v1/chat/completions", json=body).status_code for body in bodies] == [200, 400]
    assert {address[1] for address in called} == {port}
