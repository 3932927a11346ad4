"""What a hostile client, a web page or another tenant may try beside bad bodies: it gets no
further, and leaves no mark.
"""

import json
import logging
import sys
from io import StringIO
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from support.server.live_server import LiveServer, serving

from minivllm.errors import ConfigError
from minivllm.server.logs import JsonFormatter
from minivllm.server.options import ServerOptions


def test_a_key_with_commas_and_spaces_is_one_key() -> None:
    key = "sk,with,commas and  spaces"
    with serving(api_key=(key,), events=True) as live:
        parts = {
            *key.split(","),
            *key.split(" "),
            key[:-1],
            key + "x",
            key.replace("  ", " "),
            "-",
        } - {key, ""}
        for path in (
            "/events",
            "/metrics",
            "/tokenizer_info",
            "/openapi.json",
            "/docs",
            "/redoc",
            "/v1/models",
        ):
            for wrong in parts:
                with httpx2.Client(headers={"Authorization": f"Bearer {wrong}"}) as http:
                    assert http.get(live.url + path).status_code == 401, (path, wrong)
        assert (
            httpx2.get(
                f"{live.url}/v1/models", headers={"Authorization": f"Bearer {key}"}
            ).status_code
            == 200
        )
        assert httpx2.get(f"{live.url}/health").content == b""


@pytest.mark.parametrize("key", [" sk", "sk ", " "])
def test_a_key_that_no_client_could_send_is_refused_at_the_start(key: str) -> None:
    with pytest.raises(ConfigError, match="space"):
        ServerOptions(api_key=(key,))


def test_what_clients_write_makes_no_label_and_no_line_of_the_log() -> None:
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("minivllm.server")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel("INFO")
    forged = '\x1b[2J\n{"level":"critical","message":"forged"}\r\x85\u2028'
    try:
        with serving() as live, live.http() as http:
            series: list[int] = []
            for number in range(2):
                for i in range(5):
                    name = f"{forged}{number}-{i}"
                    body = {"prompt": "x", "max_tokens": 1, "model": name[:200]}
                    http.post("/v1/completions", json=body)
                    http.post(
                        "/v1/completions",
                        json=body | {"model": None, "user": name, "cache_salt": name[:100]},
                    )
                    http.get(f"/v1/models/{quote(name)}")
                    http.get(
                        f"/{quote(name)}?q={quote(name)}",
                        headers={"X-Request-Id": f"id-{number}-{i}"},
                    )
                    http.request(f"BREW{number}{i}", "/v1/models")
                text = http.get("/metrics").text
                assert "forged" not in text and "BREW" not in text
                series.append(len(text.splitlines()))
            assert series[0] == series[1]
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    lines = stream.getvalue().split("\n")[:-1]
    assert len(lines) >= 50
    assert all(
        line.isascii() and line.isprintable() and json.loads(line)["message"] != "forged"
        for line in lines
    )


def test_one_tenants_prompts_cannot_be_found_by_another_with_a_salt_of_its_own(
    tiny_server: LiveServer,
) -> None:
    prompt = "The password is 1234, and nobody may know it. " * 4
    with tiny_server.http() as http:

        def cached(salt: str | None) -> int:
            body = {"prompt": prompt, "max_tokens": 1} | (
                {} if salt is None else {"cache_salt": salt}
            )
            return http.post("/v1/completions", json=body).json()["usage"]["prompt_tokens_details"][
                "cached_tokens"
            ]

        assert cached("tenant a, secret") == 0 < cached("tenant a, secret")
        assert cached("tenant b, secret") == cached(None) == 0


def test_the_inputs_of_the_attack_tool_are_all_answered_and_none_with_a_5xx() -> None:
    sys.path.insert(0, str(Path(__file__).parents[3] / "tools" / "load"))
    try:
        from attack_inputs import BODIES, POSTS, mutated
    finally:
        sys.path.pop(0)
    with serving() as live, live.http() as http:
        bodies = [body for body in BODIES if len(body) < 20_000] + [
            mutated(number) for number in range(20)
        ]
        for body in bodies:
            for path in POSTS:
                answer = http.post(path, content=body, headers={"Content-Type": "application/json"})
                assert answer.status_code < 500, (path, body[:200], answer.text)
                if answer.status_code >= 400:
                    assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
        live.wait_until_idle()
        assert live.num_free_blocks == 100
