"""Attacks by a hostile client, a web page or another tenant, apart from bad bodies."""

import json
import logging
from io import StringIO
from urllib.parse import quote

import httpx2
from support.server.live_server import serving

from minivllm.server.logs import JsonFormatter


def test_a_key_with_commas_and_spaces_is_one_key():
    key = "sk,with,commas and  spaces"
    with serving(api_key=(key,), events=True) as live:
        parts = {*key.split(","), *key.split(" "), key[:-1], key + "x", key.replace("  ", " ")}
        with httpx2.Client(base_url=live.url) as http:
            for known, status in (*((part, 401) for part in parts - {""}), (key, 200)):
                headers = {"Authorization": f"Bearer {known}"}
                assert http.get("/v1/models", headers=headers).status_code == status, known


def test_client_input_creates_no_metric_label_and_no_log_line():
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
                    body = {"prompt": "x", "max_tokens": 1}
                    http.post("/v1/completions", json=body | {"model": name[:200]})
                    names = {"user": name, "cache_salt": name[:100]}
                    http.post("/v1/completions", json=body | names)
                    http.get(f"/v1/models/{quote(name)}")
                    given = {"X-Request-Id": f"id-{number}-{i}"}
                    http.get(f"/{quote(name)}?q={quote(name)}", headers=given)
                    http.request(f"BREW{number}{i}", "/v1/models")
                text = http.get("/metrics").text
                assert "forged" not in text and "BREW" not in text
                series.append(len(text.splitlines()))
            assert series[0] == series[1]
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    lines = stream.getvalue().split("\n")[:-1]
    assert len(lines) >= 50 and all(line.isascii() and line.isprintable() for line in lines)
    told = [json.loads(line) for line in lines]
    assert all(one.keys() >= {"t", "level"} and one["message"] != "forged" for one in told)
    requests = [one for one in told if one["message"] == "request"]
    assert len(requests) >= 50 and all(
        one.keys() >= {"request_id", "path", "status"} for one in requests
    )


def test_a_tenant_with_its_own_salt_cannot_detect_another_tenants_prompts(tiny_server):
    prompt = "The password is 1234, and nobody may know it. " * 4
    with tiny_server.http() as http:

        def cached(salt: str | None) -> int:
            body = {"prompt": prompt, "max_tokens": 1, "cache_salt": salt}
            usage = http.post("/v1/completions", json=body).json()["usage"]
            return usage["prompt_tokens_details"]["cached_tokens"]

        assert cached("tenant a, secret") == 0 < cached("tenant a, secret")
        assert cached("tenant b, secret") == cached(None) == 0
