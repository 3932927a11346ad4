"""Under `python -O` every `assert` is gone; what guards the server must not be."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import httpx2
import pytest
from support.patience import SOON


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [
        sys.executable,
        "-O",
        "-m",
        "minivllm",
        "serve",
        "tiny-random",
        "--port",
        "0",
        "--num-gpu-blocks-override",
        "64",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        told = ""
        for line in process.stderr:
            told += line
            if (found := re.search(r'"url": "([^"]+)"', line)) is not None:
                yield found[1]
                break
        else:
            raise AssertionError(f"the server did not start:\n{told}")
    finally:
        process.terminate()
        process.communicate(timeout=SOON)
    if process.returncode != 0:
        raise AssertionError(f"the server ended with {process.returncode}")


@pytest.mark.parametrize(
    ("path", "body", "status", "word"),
    [
        ("/v1/completions", {"prompt": ""}, 400, "empty"),
        ("/v1/completions", {"prompt": []}, 400, "empty"),
        ("/v1/completions", {"prompt": [10**6]}, 400, "no token id"),
        ("/v1/completions", {"prompt": "x", "stop_token_ids": [10**6]}, 400, "no token id"),
        ("/v1/completions", {"prompt": "x", "logit_bias": {"1000000": 1}}, 400, "no token id"),
        ("/v1/completions", {"prompt": "x" * 2048}, 400, "max_model_len"),
        ("/v1/completions", {"prompt": "x" * 1000, "max_tokens": 1000}, 400, "blocks"),
        ("/v1/completions", {"prompt": "x", "n": 17}, 400, "16"),
        ("/v1/completions", {"prompt": "x", "temperature": -1}, 400, "0"),
        ("/v1/completions", {"prompt": "x", "guided_regex": "a"}, 400, "guided_regex"),
        ("/v1/completions", {"prompt": "x", "model": "gpt-4"}, 404, "gpt-4"),
        ("/v1/chat/completions", {"messages": []}, 400, "1 item"),
        ("/generate", {"prompt": "x", "use_beam_search": True}, 400, "two beams"),
        ("/detokenize", {"tokens": [10**6]}, 400, "no token id"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_input_is_refused_without_asserts_too(url: str, path: str, body: dict, status: int, word: str) -> None:
    answer = httpx2.post(
        url + path, content=json.dumps(body), headers={"Content-Type": "application/json"}, timeout=SOON
    )
    assert answer.status_code == status, answer.text
    assert word in answer.json()["error"]["message"]


def test_strangers_are_kept_out_and_good_requests_are_answered_without_asserts(url: str) -> None:
    assert httpx2.get(f"{url}/v1/models", headers={"Host": "evil.example"}).status_code == 400
    headers = {"Content-Type": "application/json"}
    assert httpx2.post(f"{url}/tokenize", content=b" " * ((1 << 20) + 1), headers=headers).status_code == 413
    answer = httpx2.post(
        f"{url}/v1/completions", json={"prompt": "x", "max_tokens": 3, "ignore_eos": True}, timeout=SOON
    )
    assert answer.json()["usage"]["completion_tokens"] == 3
