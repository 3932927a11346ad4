"""`minivllm serve` in its own process: start, messages and shutdown."""

import json
import logging
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest
from support.patience import SOON

from minivllm.cli import main
from minivllm.cli.recordings.once import fold_once

SERVE = [
    "-m", "minivllm", "serve", "tiny-random", "--port", "0", "--num-gpu-blocks-override", "2000",
]  # fmt: skip


@pytest.fixture(autouse=True)
def logging_ends_with_the_test() -> Iterator[None]:
    """Restore the loggers: `main` connects them to the captured stderr of one test."""
    loggers = [
        logging.getLogger(name) for name in ("minivllm.server", "minivllm.engine.engine", "uvicorn")
    ]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@contextmanager
def serve_process(*options: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """A server process, and its address from its own output."""
    command = [sys.executable, *SERVE, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    killer = threading.Timer(60, process.kill)
    killer.start()
    try:
        told = []
        for line in process.stderr:
            told.append(json.loads(line))
            if told[-1]["message"] == "serving":
                break
        messages = ["loading the model", "the model is loaded", "serving"]
        assert [line["message"] for line in told] == messages
        assert told[1]["num_blocks"] == 2000
        yield process, told[2]["url"]
    finally:
        killer.cancel()
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_signal_lets_the_stream_under_way_finish_and_ends_in_success():
    with serve_process() as (process, url):
        body = {"prompt": "x", "max_tokens": 400, "ignore_eos": True, "stream": True}
        with httpx2.stream("POST", f"{url}/v1/completions", json=body, timeout=SOON) as answer:
            pieces = answer.iter_text()
            text = next(pieces)
            process.send_signal(signal.SIGTERM)
            text += "".join(pieces)
        assert text.endswith("data: [DONE]\n\n")
        assert '"finish_reason":"length"' in text
        lines = [json.loads(line) for line in process.stderr]
        assert process.wait(SOON) == 0
        assert lines[-1]["message"] == "ended"


def test_an_address_in_use_is_reported_before_the_model_is_loaded(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["serve", "no-such-model", "--port", str(taken.getsockname()[1])]) == 1
    assert "cannot serve on 127.0.0.1" in capsys.readouterr().err


def test_without_its_extra_serve_says_what_to_install():
    code = (
        "import sys; sys.modules['starlette'] = None\nfrom minivllm.cli import"
        " main\nsys.exit(main(['serve', 'tiny-random']))"
    )
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SOON)
    said = "minivllm: serve needs the package starlette: pip install 'minivllm[serve]'.\n"
    assert (ended.returncode, ended.stderr) == (2, said)


def test_the_key_comes_from_vllms_environment_variable(monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "sk-1")
    with serve_process("--events") as (_, url):
        assert httpx2.get(f"{url}/metrics").status_code == 401
        assert fold_once(url, None)[0].header.model == "tiny-random"
