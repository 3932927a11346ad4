"""A chat template that never ends costs those who chat; everybody else is served as if nothing
were.
"""

from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace

from support.server.live_server import serving

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.runtime.loader import LoadedModel
from minivllm.runtime.text.chat_template import ChatTemplate

ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
CONFIG = EngineConfig(
    model="tiny-random", dtype="float32", num_gpu_blocks_override=200, max_num_seqs=16,
    block_size=8,
)  # fmt: skip
BODY = {"prompt": "once upon a time", "max_tokens": 5, "temperature": 0, "ignore_eos": True}
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}


def test_a_hostile_template_fails_the_chats_and_leaves_the_others_their_answers(
    tiny_model: LoadedModel,
) -> None:
    tokenizer = copy(tiny_model.tokenizer)
    tokenizer.__dict__["_chat_template"] = ChatTemplate(ENDLESS, {}, max_seconds=0.5)
    engine = LLMEngine.from_model(CONFIG, replace(tiny_model, tokenizer=tokenizer))
    with serving(engine) as live, live.http() as http, ThreadPoolExecutor(6) as pool:
        expected = http.post("/v1/completions", json=BODY).json()["choices"]
        chats = [pool.submit(http.post, "/v1/chat/completions", json=CHAT) for _ in range(3)]
        counts = [pool.submit(http.post, "/tokenize", json=CHAT) for _ in range(3)]
        assert http.post("/v1/completions", json=BODY).json()["choices"] == expected
        assert http.post("/tokenize", json={"prompt": "x"}).status_code == 200
        assert http.get("/health").status_code == 200
        assert not any(one.done() for one in chats + counts), "they had to wait for those who chat"
        for one in chats + counts:
            answer = one.result()
            assert answer.status_code == 400
            assert "chat template" in answer.json()["error"]["message"]
            assert "/" not in answer.json()["error"]["message"]
        assert http.post("/v1/completions", json=BODY).json()["choices"] == expected
        live.wait_until_idle()
        assert live.num_free_blocks == 200
