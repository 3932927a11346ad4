"""vLLM's early `/generate`, and the routes about model and tokenizer."""

import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from support.patience import SOON
from support.server.live_server import serving

from minivllm import __version__
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.runtime.loader import load_model

LAB = Path(__file__).resolve().parents[3] / "docs/teach/lab-3h.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_curl_command_of_the_early_servers_works(tiny_server):
    prompt = "The capital of France is"
    body = f'{{"prompt": "{prompt}", "n": 1, "use_beam_search": false, "temperature": 0.7}}'
    url = f"{tiny_server.url.replace('127.0.0.1', 'localhost')}/generate"
    command = ["curl", "-sS", url, "-X", "POST", "-d", body]
    said = subprocess.run(command, capture_output=True, check=True, timeout=SOON).stdout
    answer = json.loads(said)
    assert answer.keys() == {"text"}
    (text,) = answer["text"]
    assert text.startswith(prompt) and len(text) > len(prompt)


def test_the_request_of_the_three_hour_lab_gets_all_tokens_that_it_asks_for():
    body = re.search(r"/generate -d '(.*)'", LAB.read_text(encoding="utf-8"))[1]
    config = EngineConfig(model="house", num_gpu_blocks_override=400, device="cpu")
    engine = LLMEngine.from_model(config, load_model(config))
    with serving(engine) as live, live.http() as http:
        assert http.post("/generate", content=body).status_code == 200
        lines = http.get("/metrics").text.splitlines()
    (total,) = (line for line in lines if line.startswith("vllm:generation_tokens_total"))
    assert float(total.rpartition(" ")[2]) == json.loads(body)["max_tokens"] == 1000


@pytest.mark.parametrize(
    ("accept", "delimiter"),
    [("*/*", b"\0"), ("application/x-ndjson", b"\n")],
    ids=["null-delimited", "lines"],
)
@pytest.mark.parametrize("beams", [False, True])
def test_a_streamed_generate_repeats_all_texts_so_far(tiny_server, accept, delimiter, beams):
    body = {"prompt": "San Francisco is a", "n": 4, "max_tokens": 8}
    body |= {"use_beam_search": True, "temperature": 0} if beams else {"seed": 1}
    with tiny_server.http() as http:
        whole = http.post("/generate", json=body).json()["text"]
        streamed = http.post("/generate", json=body | {"stream": True}, headers={"Accept": accept})
    assert streamed.content.endswith(delimiter)
    pieces = [json.loads(piece)["text"] for piece in streamed.content.split(delimiter)[:-1]]
    assert len(pieces) == 8
    assert {len(texts) for texts in pieces} == {4} and pieces[-1] == whole
    assert all(text.startswith(body["prompt"]) for texts in pieces for text in texts)
    if not beams:
        for before, after in pairwise(pieces):
            assert all(map(str.startswith, after, before))


def test_tokenize_and_detokenize_are_inverse(tiny_server):
    with tiny_server.http() as http:
        assert http.get("/version").json() == {"version": __version__}
        told = http.post("/tokenize", json={"prompt": "Grüße", "return_token_strs": True}).json()
        assert told["count"] == len(told["tokens"]) == len(told["token_strs"]) == 7
        assert told["max_model_len"] == 2048
        assert http.post("/detokenize", json={"tokens": told["tokens"]}).json() == {
            "prompt": "Grüße"
        }
        plain = http.post("/tokenize", json={"prompt": "Grüße", "add_special_tokens": False}).json()
        assert plain == {"count": 7, "max_model_len": 2048, "tokens": told["tokens"]}
        messages = [{"role": "user", "content": "Hi"}]
        chat = http.post("/tokenize", json={"messages": messages}).json()["tokens"]
        assert chat == tiny_server.engine.tokenizer.apply_chat_template(messages)
        assert http.post("/detokenize", json={"tokens": []}).json() == {"prompt": ""}
        info = http.get("/tokenizer_info").json()
        assert info["eos_token"] == "<|im_end|>"
