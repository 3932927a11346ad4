"""Options of a server, and its logs."""

import logging

import pytest
from support.server.in_process import in_process

from minivllm.errors import ConfigError
from minivllm.server.options import ServerOptions


def test_a_bad_option_is_refused():
    for fields in (
        {"host": "0.0.0.0"}, {"host": "some.name"}, {"port": 65536}, {"api_key": ("schlüssel",)},
        {"api_key": ("sk ",)}, {"drain_timeout": float("inf")}, {"max_body_bytes": 5},
        {"generate_delimiter": "comma"}, {"enable_auto_tool_choice": True},
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            ServerOptions(**fields)


def test_each_request_is_logged_with_its_id_its_status_and_its_tokens(caplog):
    with (
        caplog.at_level(logging.INFO, "minivllm.server"),
        in_process() as live,
        live.http() as http,
    ):
        body = {"prompt": "hello", "max_tokens": 4}
        for more in ({}, {"stream": True}, {"prompt": ""}):
            http.post("/v1/completions", json=body | more)
        http.post("/generate", json=body | {"n": 2})
    told = [record.fields for record in caplog.records if record.getMessage() == "request"]
    assert [
        (one["path"], one["status"], one.get("prompt_tokens"), one.get("completion_tokens"))
        for one in told
    ] == [
        ("/v1/completions", 200, 5, 4),
        ("/v1/completions", 200, 5, 4),
        ("/v1/completions", 400, None, None),
        ("/generate", 200, 5, 8),
    ]
