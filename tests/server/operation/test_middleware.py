"""Access control: options, keys, hosts, origins, sizes, request ids, and errors of the router itself."""

import json
import logging
import secrets
from collections.abc import Iterator
from io import StringIO
from urllib.parse import quote

import pytest
from support.server.in_process import in_process
from support.server.live_server import LiveServer, error_of

from minivllm.errors import ConfigError
from minivllm.server.http.middleware import Access
from minivllm.server.logs import JsonFormatter
from minivllm.server.options import ServerOptions

KEY = "sk-first"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with in_process(api_key=(KEY, "sk,second  key"), max_body_bytes=4096, events=True) as server:
        yield server


def routes_of(live: LiveServer) -> list[tuple[str, str]]:
    with live.http() as http:
        paths = http.get("/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def test_a_bad_option_is_refused():
    for fields in (
        {"host": "0.0.0.0"}, {"host": "some.name"}, {"port": 65536}, {"api_key": ("schlüssel",)},
        {"api_key": ("sk ",)}, {"drain_timeout": float("inf")}, {"max_body_bytes": 5},
        {"generate_delimiter": "comma"}, {"enable_auto_tool_choice": True},
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            ServerOptions(**fields)


def test_every_route_but_health_needs_the_key(live):
    found = routes_of(live)
    assert len(found) >= 10
    others = ["/openapi.json", "/docs", "/redoc", "/metrics", "/nothing", "/x/health"]
    with live.http(headers={}) as http:
        for method, path in [*found, *(("GET", url) for url in others), ("OPTIONS", "/v1/models")]:
            for given in (None, "Bearer wrong", f"Basic {KEY}"):
                headers = {"Authorization": given} if given else {}
                answer = http.request(method, path, headers=headers)
                if path == "/health":
                    assert answer.status_code == 200
                    continue
                assert error_of(answer) == (401, "invalid_api_key"), (method, path)
                assert answer.headers["www-authenticate"] == "Bearer"


def test_each_key_is_compared_whole_with_its_commas_and_spaces(live):
    wrong = [KEY[:-1], KEY + "x", "sk", "second  key", "sk,second key", "sk,second"]
    with live.http(headers={}) as http:
        for key in (KEY, "sk,second  key", *wrong):
            status = http.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code
            assert status == (401 if key in wrong else 200), key


def test_compare_digest_checks_a_key_against_every_known_one(monkeypatch):
    compared: list[tuple[bytes, bytes]] = []
    answers = [False, False]

    def compare(given: bytes, known: bytes) -> bool:
        compared.append((given, known))
        return answers[len(compared) % 2]

    keys = Access(None, None, ["k1", "longer key"])
    monkeypatch.setattr(secrets, "compare_digest", compare)
    assert not keys._knows("k1")  # equal, but equality alone does not decide
    answers = [False, True]
    assert keys._knows("wrong")
    # Each guess is compared with all keys, even after a match, as digests of one length.
    assert len(compared) == 4 and {len(key) for pair in compared for key in pair} == {32}


def test_only_names_of_this_machine_are_accepted_as_host_unless_there_is_a_key():
    ours = ["localhost:8000", "LOCALHOST", "127.0.0.1", "[::1]:9", "our.name"]
    others = ["evil.example", "localhost.evil.example", "a/health?", "", "127.0.0.1:80:90", "[::1"]

    def status(live: LiveServer, host: str) -> int:
        with live.http() as http:
            return http.get("/health", headers={"Host": host}).status_code

    with in_process(allowed_hosts=("our.name",)) as live:
        assert [status(live, host) for host in ours + others] == [200] * 5 + [400] * 6
    with in_process(host="0.0.0.0", api_key=("key",)) as live:
        assert [status(live, host) for host in others] == [200] * 2 + [400] * 4


def test_a_body_over_the_limit_is_refused_in_one_piece_or_several(live):
    def pieces() -> Iterator[bytes]:
        yield from [b"x" * 1000] * 10

    with live.http() as http:
        for content in (b"x" * 4097, b"x" * 5000, pieces()):
            answer = http.post("/tokenize", content=content, headers=JSON)
            assert error_of(answer) == (413, "request_too_large")
        assert http.post("/tokenize", content=b" " * 4096, headers=JSON).status_code == 400


def test_unknown_routes_and_methods_give_errors_in_the_same_shape(live):
    with live.http() as http:
        for method, path, status in (
            ("GET", "/nothing", 404), ("GET", "/docs", 404),
            ("GET", "/v1/completions", 405), ("DELETE", "/v1/models", 405),
            ("GET", "/v1/models/", 404), ("GET", "/../../etc/passwd", 404),
            ("POST", "/v1/completions/", 404),
        ):  # fmt: skip
            answer = http.request(method, path)
            assert error_of(answer)[0] == status, (method, path)
        instead = http.post("/v1/responses", json={}).json()["error"]["message"]
        assert "/v1/chat/completions" in instead


def test_a_valid_request_id_comes_back(live):
    with live.http() as http:
        for name in ("abc-1.2_3", "a" * 65, "a b", "<script>"):
            answer = http.get("/nothing", headers={"X-Request-Id": name})
            given = answer.headers["x-request-id"]
            assert given == name == "abc-1.2_3" or (len(given) == 32 and given.isalnum())


ORIGINS = ("https://evil.example", "null", "http://localhost:1", "http://127.0.0.1.evil", "")


def test_a_page_of_another_site_may_not_use_any_route():
    with in_process(events=True) as live, live.http() as http:
        for method, path in [*routes_of(live), ("OPTIONS", "/v1/completions")]:
            for origin in ORIGINS:
                headers = {"Origin": origin, "Content-Type": "text/plain"}
                refused = http.request(method, path, headers=headers, content=b'{"prompt": "x"}')
                assert error_of(refused) == (403, "invalid_origin"), path
                assert not [name for name in refused.headers if name.startswith("access-control")]
        assert live.events == []


def test_generate_takes_what_curl_sends_and_pages_of_its_own_address():
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    with in_process() as live, live.http() as http:
        for headers in (form, form | {"Origin": live.url}):
            body = b'{"prompt": "x", "max_tokens": 2}'
            assert http.post("/generate", content=body, headers=headers).status_code == 200


def test_client_input_creates_no_metric_label_and_no_log_line(monkeypatch, caplog):
    stream, logger = StringIO(), logging.getLogger("minivllm.server")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    monkeypatch.setattr(logger, "handlers", [handler])
    caplog.set_level(logging.INFO, "minivllm.server")
    forged = '\x1b[2J\n{"level":"critical","message":"forged"}\r\x85\u2028'
    with in_process() as live, live.http() as http:
        series: list[int] = []
        for i in range(6):
            name, body = f"{forged}{i}", {"prompt": "x", "max_tokens": 1}
            http.post("/v1/completions", json=body | {"model": name})
            http.post("/v1/completions", json=body | {"user": name, "cache_salt": name})
            http.get(f"/v1/models/{quote(name)}")
            http.get(f"/{quote(name)}?q={quote(name)}")
            http.request(f"BREW{i}", "/v1/models")
            text = http.get("/metrics").text
            assert "forged" not in text and "BREW" not in text
            series.append(len(text.splitlines()))
        assert len(set(series)) == 1
    lines = stream.getvalue().split("\n")[:-1]
    assert len(lines) >= 36 and all(line.isascii() and line.isprintable() for line in lines)
    told = [json.loads(line) for line in lines]
    assert all(line.keys() >= {"t", "level"} and line["message"] != "forged" for line in told)
    requests = [line for line in told if line["message"] == "request"]
    fields = {"request_id", "path", "status", "method", "seconds"}
    assert len(requests) >= 36 and all(line.keys() >= fields for line in requests)
