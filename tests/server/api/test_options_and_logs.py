"""Options of a server, and its logs."""

import gc
import logging

import pytest
from support.server.live_server import serving

from minivllm.cli import main
from minivllm.errors import ConfigError
from minivllm.server.options import ServerOptions


@pytest.mark.parametrize(
    "fields",
    [
        {"host": "0.0.0.0"},
        {"host": "some.name"},
        {"port": 65536},
        {"api_key": ("schlüssel",)},
        {"api_key": ("sk ",)},
        {"api_key": (" ",)},
        {"drain_timeout": float("inf")},
        {"max_body_bytes": 5},
        {"generate_delimiter": "comma"},
    ],
)
def test_a_bad_option_is_refused(fields):
    with pytest.raises(ConfigError):
        ServerOptions(**fields)


def test_a_server_with_a_key_answers_to_any_valid_host_name():
    with serving(host="0.0.0.0", api_key=("key",)) as live:
        live.url = live.url.replace("0.0.0.0", "127.0.0.1")
        with live.http() as http:
            assert http.get("/v1/models", headers={"Host": "our.server:8000"}).status_code == 200
            assert http.get("/v1/models", headers={"Host": "a/b"}).status_code == 400


def test_each_request_is_logged_with_its_id_its_status_and_its_tokens(caplog):
    with caplog.at_level(logging.INFO, "minivllm.server"), serving() as live, live.http() as http:
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


def test_loaded_objects_are_excluded_from_garbage_collection_before_the_first_request(monkeypatch):
    frozen: list[int] = []
    monkeypatch.setattr(
        "minivllm.server.run.run_server", lambda *_: frozen.append(gc.get_freeze_count())
    )
    monkeypatch.setattr("minivllm.server.logs.set_up_logging", lambda *_: None)
    before = gc.get_freeze_count()
    assert main(["serve", "tiny-random", "--port", "0", "--num-gpu-blocks-override", "5000"]) == 0
    assert frozen[0] >= before + 5000, "the blocks of the pool are still collected"
