"""One client's request does not delay another's, and work ends with its time limit or client."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.patience import SOON
from support.server.live_server import LiveServer, deaf_client, fake_engine, serving, wait_for

MIB = 1 << 20

HEAVY = {
    "unknown keys": ("/v1/completions", {f"k{i}": 1 for i in range(80_000)}, 400),
    "empty lists": ("/v1/completions", {"prompt": [[]] * 340_000}, 400),
    "ids of a text": ("/detokenize", {"tokens": [60] * 340_000}, 400),
    "tokens": ("/tokenize", {"prompt": "a" * (MIB - 100)}, 200),
}


@pytest.mark.parametrize(("path", "body", "status"), HEAVY.values(), ids=HEAVY)
def test_the_request_of_one_client_does_not_delay_others(tiny_server, path, body, status):
    content = json.dumps(body, separators=(",", ":")).encode()
    with tiny_server.http() as http, tiny_server.http() as other, ThreadPoolExecutor(1) as pool:
        other.get("/version")
        asked = pool.submit(
            http.post, path, content=content, headers={"Content-Type": "application/json"}
        )
        waits, asked_at = [], time.monotonic()
        while not asked.done():
            began = time.monotonic()
            other.get("/version")
            waits.append(time.monotonic() - began)
        assert asked.result().status_code == status, asked.result().text[:300]
        # Other answers arrive in between, not only at the end. On a busy machine both take longer.
        assert max(waits) < max(1.0, (time.monotonic() - asked_at) / 2)


class SlowTokenizer:
    """Blocks in the middle of a text until released."""

    def __init__(self, live: LiveServer) -> None:
        self.entered, self.gate = threading.Event(), threading.Event()
        tokenizer = live.service.tokenizer
        encode = tokenizer.encode

        def slowly(*args: object) -> list[int]:
            self.entered.set()
            self.gate.wait(SOON)
            return encode(*args)

        tokenizer.encode = slowly


TEXT = {"prompt": "x"}
CHAT = {"messages": [{"role": "user", "content": "x"}]}
TOKENIZED = [
    ("/v1/completions", TEXT),
    ("/v1/chat/completions", CHAT),
    ("/tokenize", TEXT),
    ("/tokenize", CHAT),
]


@pytest.mark.parametrize(("path", "body"), TOKENIZED)
def test_the_time_limit_includes_tokenization(path, body):
    with serving(fake_engine(), request_timeout=0.1) as live, live.http() as http:
        slow = SlowTokenizer(live)
        late = http.post(path, json=body)
        slow.gate.set()  # only now: the answer did not wait for it
        assert (late.status_code, late.json()["error"]["code"]) == (504, "request_timeout")


def test_a_client_that_disconnects_during_tokenization_is_noticed():
    with serving(fake_engine()) as live:
        slow = SlowTokenizer(live)
        with deaf_client(live, "/v1/completions", {"prompt": "x"}):
            assert slow.entered.wait(SOON)
        wait_for(lambda: not live.server.server_state.tasks)
        slow.gate.set()
        live.wait_until_idle()
        assert live.events == []
