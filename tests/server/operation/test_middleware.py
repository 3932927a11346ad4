"""Access control: keys, hosts, origins and sizes."""

import contextlib
import secrets
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2
import pytest
from support.patience import SOON
from support.server.live_server import LiveServer, serving

from minivllm.server.http.middleware import ApiKey
from minivllm.server.options import ServerOptions

KEY = "sk-first"
POST = b"POST /generate HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-first\r\n"


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with serving(
        api_key=(KEY, "sk-second"), max_body_bytes=4096, body_timeout=0.5, events=True
    ) as server:
        yield server


def raw(live: LiveServer, sent: bytes) -> bytes:
    """The answer to exactly these bytes."""
    parts = urlsplit(live.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=SOON) as connection:
        connection.sendall(sent)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(65536):
                received += chunk
    return received


def routes_of(live: LiveServer) -> list[tuple[str, str]]:
    with live.http() as http:
        paths = http.get("/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def test_every_route_but_health_needs_the_key(live):
    found = routes_of(live)
    assert len(found) >= 10
    others = ["/openapi.json", "/docs", "/redoc", "/metrics", "/nothing", "//health"]
    with httpx2.Client(base_url=live.url) as http:
        for method, path in [*found, *(("GET", one) for one in others), ("OPTIONS", "/v1/models")]:
            for given in (None, "Bearer wrong", f"Basic {KEY}"):
                headers = {"Authorization": given} if given else {}
                answer = http.request(method, path, headers=headers)
                if path == "/health":
                    assert answer.status_code == 200
                    continue
                assert answer.status_code == 401, (method, path)
                assert answer.json()["error"]["code"] == "invalid_api_key"
                assert answer.headers["www-authenticate"] == "Bearer"


def test_compare_digest_checks_a_key_against_every_known_one(monkeypatch):
    compared: list[tuple[bytes, bytes]] = []
    answers = [False, False]

    def compare(given: bytes, known: bytes) -> bool:
        compared.append((given, known))
        return answers[len(compared) % 2]

    keys = ApiKey(None, ["k1", "longer key"])
    monkeypatch.setattr(secrets, "compare_digest", compare)
    assert not keys._knows("k1")  # equal, but equality alone does not decide
    answers = [False, True]
    assert keys._knows("wrong")
    # Each guess is compared with all keys, even after a match, as digests of one length.
    assert len(compared) == 4 and {len(one) for pair in compared for one in pair} == {32}


OURS = ["localhost:8000", "LOCALHOST", "127.0.0.1", "[::1]:9"]
OTHERS = ["evil.example", "a/health?", "localhost.evil.example", "", "127.0.0.1:80:90", "[::1"]


@pytest.mark.parametrize("host", OURS + OTHERS)
def test_only_names_of_this_machine_are_accepted_as_host(live, host):
    head = f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    status = raw(live, head.encode()).split(b" ")[1]
    assert status == (b"200" if host in OURS else b"400")


def test_a_body_over_the_limit_is_refused_announced_or_not(live):
    def pieces() -> Iterator[bytes]:
        yield from [b"x" * 1000] * 10

    json = {"Content-Type": "application/json"}
    with live.http() as http:
        for content in (b"x" * 4097, b"x" * 5000, pieces()):
            answer = http.post("/tokenize", content=content, headers=json)
            assert answer.status_code == 413
            assert answer.json()["error"]["code"] == "request_too_large"
        assert http.post("/tokenize", content=b" " * 4096, headers=json).status_code == 400
    assert b" 413 " in raw(live, POST + b"Content-Length: 99999999999\r\n\r\n")
    assert ServerOptions().max_body_bytes == 1 << 20


def test_a_missing_body_gets_a_408_after_a_short_wait(live):
    assert b" 408 " in raw(live, POST + b"Content-Length: 50\r\n\r\n" + b'{"prompt":')


def test_too_many_or_too_large_headers_are_refused(live):
    with live.http() as http:
        many = http.get("/health", headers={f"x-{i}": "y" for i in range(120)})
        large = http.get("/health", headers={"x-large": "y" * 40_000})
        assert [many.status_code, large.status_code] == [431, 431]
        assert many.json()["error"]["code"] == "headers_too_large"
    # More than the limit, without an end. The answer comes while the client waits, so the
    # connection is not reset.
    endless = raw(live, b"GET /health HTTP/1.1\r\nHost: localhost\r\nx: " + b"y" * 70_000)
    assert endless.split(b" ")[1] in (b"400", b"431")


def test_unknown_routes_and_methods_give_errors_in_the_same_shape(live):
    with live.http() as http:
        for method, path, status in (
            ("GET", "/nothing", 404), ("GET", "/docs", 404),
            ("GET", "/v1/completions", 405), ("DELETE", "/v1/models", 405),
            ("GET", "/v1/models/", 404), ("GET", "/../../etc/passwd", 404),
            ("POST", "/v1/completions/", 404),
        ):  # fmt: skip
            answer = http.request(method, path)
            assert answer.status_code == status, (method, path)
            assert answer.json()["error"].keys() == {"message", "type", "param", "code"}


def test_a_valid_request_id_comes_back(live):
    with live.http() as http:
        for name in ("abc-1.2_3", "a" * 65, "a b", "<script>"):
            answer = http.get("/nothing", headers={"X-Request-Id": name})
            given = answer.headers["x-request-id"]
            assert given == name == "abc-1.2_3" or (len(given) == 32 and given.isalnum())


ORIGINS = ("https://evil.example", "null", "http://localhost:1", "http://127.0.0.1.evil", "")


def test_a_page_of_another_site_may_not_use_any_route():
    with serving(events=True) as live, live.http() as http:
        for method, path in [*routes_of(live), ("OPTIONS", "/v1/completions")]:
            for origin in ORIGINS:
                headers = {"Origin": origin, "Content-Type": "text/plain"}
                refused = http.request(method, path, headers=headers, content=b'{"prompt": "x"}')
                assert refused.status_code == 403, path
                assert refused.json()["error"]["code"] == "invalid_origin"
                assert not [name for name in refused.headers if name.startswith("access-control")]
        assert live.events == []


def test_generate_takes_what_curl_sends_and_pages_of_its_own_address():
    with serving() as live, live.http() as http:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        for headers in (form, form | {"Origin": live.url}):
            body = b'{"prompt": "x", "max_tokens": 2}'
            assert http.post("/generate", content=body, headers=headers).status_code == 200
