"""Strangers: who may ask at all, from where, with how much."""

import contextlib
import secrets
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2
import pytest
from support.patience import SOON
from support.server.live_server import LiveServer, serving

from minivllm.server.http.middleware import ApiKey

KEY = "sk-first"


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with serving(
        api_key=(KEY, "sk-second"), max_body_bytes=4096, body_timeout=0.5, events=True
    ) as server:
        yield server


def raw(live: LiveServer, *pieces: bytes, pause: float = 0.0) -> bytes:
    """What comes back for these very bytes."""
    parts = urlsplit(live.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=SOON) as connection:
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(65536):
                received += chunk
    return received


def routes_of(live: LiveServer) -> list[tuple[str, str]]:
    with live.http() as http:
        paths = http.get("/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def test_every_route_but_health_needs_the_key(live: LiveServer) -> None:
    found = routes_of(live)
    assert len(found) >= 10
    others = [
        ("GET", "/openapi.json"),
        ("GET", "/metrics"),
        ("GET", "/nothing"),
        ("OPTIONS", "/v1/models"),
        ("GET", "//health"),
    ]
    with httpx2.Client(base_url=live.url) as http:
        for method, path in [*found, *others]:
            for headers in (
                {},
                {"Authorization": "Bearer wrong"},
                {"Authorization": f"Basic {KEY}"},
            ):
                answer = http.request(method, path, headers=headers)
                if path == "/health":
                    assert answer.status_code == 200
                    continue
                assert answer.status_code == 401, (method, path)
                assert answer.json()["error"]["code"] == "invalid_api_key"
                assert answer.headers["www-authenticate"] == "Bearer"


def test_compare_digest_decides_about_a_key_and_sees_every_known_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    answers = [False, False]

    def compare(given: bytes, known: bytes) -> bool:
        compared.append((given, known))
        return answers[len(compared) % 2]

    keys = ApiKey(None, ["k1", "longer key"])
    monkeypatch.setattr(secrets, "compare_digest", compare)
    assert not keys._knows("k1")  # equal, but it is not what decides
    answers = [False, True]
    assert keys._knows("wrong")
    # Each guess with all keys, whichever fits, as digests of one length.
    assert len(compared) == 4 and {len(one) for pair in compared for one in pair} == {32}


@pytest.mark.parametrize(
    "host", ["evil.example", "a/health?", "localhost.evil.example", "", "127.0.0.1:80:90", "[::1"]
)
def test_a_host_header_that_is_not_ours_is_refused(live: LiveServer, host: str) -> None:
    answer = raw(
        live, f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    )
    assert answer.split(b" ")[1] == b"400"


@pytest.mark.parametrize("host", ["localhost:8000", "LOCALHOST", "127.0.0.1", "[::1]:9"])
def test_the_names_of_this_machine_are_ours(live: LiveServer, host: str) -> None:
    assert httpx2.get(f"{live.url}/health", headers={"Host": host}).status_code == 200


def test_a_body_over_the_limit_is_refused_announced_or_not(live: LiveServer) -> None:
    def pieces() -> Iterator[bytes]:
        yield from [b"x" * 1000] * 10

    with live.http() as http:
        for content in (b"x" * 5000, pieces()):
            answer = http.post(
                "/v1/completions", content=content, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 413
            assert answer.json()["error"]["code"] == "request_too_large"
    lie = (
        b"POST /generate HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer"
        b" sk-first\r\nContent-Length: 99999999999\r\n\r\n"
    )
    assert b" 413 " in raw(live, lie)


def test_the_default_limit_of_a_body_is_one_mebibyte() -> None:
    with serving() as live, live.http() as http:
        headers = {"Content-Type": "application/json"}
        assert http.post("/tokenize", content=b" " * (1 << 20), headers=headers).status_code == 400
        assert (
            http.post("/tokenize", content=b" " * ((1 << 20) + 1), headers=headers).status_code
            == 413
        )


def test_a_body_that_does_not_come_is_not_waited_for_long(live: LiveServer) -> None:
    head = (
        b"POST /generate HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer"
        b" sk-first\r\nContent-Length: 50\r\n\r\n"
    )
    assert b" 408 " in raw(live, head, b'{"prompt":')


def test_too_many_or_too_large_headers_are_refused(live: LiveServer) -> None:
    with live.http() as http:
        many = http.get("/health", headers={f"x-{i}": "y" for i in range(120)})
        large = http.get("/health", headers={"x-large": "y" * 40_000})
        assert [many.status_code, large.status_code] == [431, 431]
        assert many.json()["error"]["code"] == "headers_too_large"
    # More than the limit, and no end of it: it is answered while the client waits, so nothing is
    # reset.
    endless = raw(live, b"GET /health HTTP/1.1\r\nHost: localhost\r\nx: " + b"y" * 70_000)
    assert endless.split(b" ")[1] in (b"400", b"431")


def test_what_is_not_there_is_told_in_the_same_shape(live: LiveServer) -> None:
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


def test_a_request_id_comes_back_if_it_is_a_decent_one(live: LiveServer) -> None:
    with live.http() as http:
        assert (
            http.get("/health", headers={"X-Request-Id": "abc-1.2_3"}).headers["x-request-id"]
            == "abc-1.2_3"
        )
        for odd in ("a" * 65, "a b", "<script>"):
            given = http.get("/health", headers={"X-Request-Id": odd}).headers["x-request-id"]
            assert len(given) == 32 and given.isalnum()
        assert http.get("/nothing").headers["x-request-id"]


ORIGINS = (
    "https://evil.example",
    "null",
    "http://localhost",
    "http://localhost:1",
    "http://127.0.0.1.evil.example",
    "",
)


def test_a_page_of_another_site_may_not_use_any_route() -> None:
    with serving(events=True) as live, live.http() as http:
        for method, path in [*routes_of(live), ("OPTIONS", "/v1/completions")]:
            for origin in ORIGINS:
                headers = {"Origin": origin, "Content-Type": "text/plain"}
                refused = http.request(method, path, headers=headers, content=b'{"prompt": "x"}')
                assert (refused.status_code, refused.json()["error"]["code"]) == (
                    403,
                    "invalid_origin",
                ), path
                assert not [name for name in refused.headers if name.startswith("access-control")]
        assert live.events == []


def test_generate_takes_what_curl_sends_and_pages_of_its_own_address() -> None:
    with serving() as live, live.http() as http:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        for headers in (form, form | {"Origin": live.url}):
            answer = http.post(
                "/generate", content=b'{"prompt": "x", "max_tokens": 2}', headers=headers
            )
            assert answer.status_code == 200
