"""A model that really calls tools: the house model, after a minute of lessons in it."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from shutil import copytree

import pytest
import torch
from support.server.live_server import LiveServer, serving
from transformers import AutoTokenizer, LlamaForCausalLM

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.runtime.loader import load_model
from minivllm.runtime.store.house_model import FOLDER

pytestmark = pytest.mark.slow

TEMPLATE = (
    "{% if tools %}<|im_start|>system\nYou may call{% for tool in tools %}"
    " {{ tool.function.name }}{% endfor %}.<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.tool_calls %}{% for call in message.tool_calls %}"
    '<tool_call>{"name": "{{ call.function.name }}", "arguments":'
    " {{ call.function.arguments | tojson }}}</tool_call>{% endfor %}"
    "{% else %}{{ message.content }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]
CITIES = ["Rome", "Paris", "Tokyo", "Cairo", "Berlin", "London", "Madrid", "Vienna"]
STEPS, ROWS, RATE = 220, 4, 1e-3


def written_call(city: str) -> str:
    return f'<tool_call>{{"name": "weather", "arguments": {{"city": "{city}"}}}}</tool_call>'


def lesson(random: Random) -> tuple[list[dict], str]:
    """Return a conversation and the answer to learn."""
    one, two = random.sample(CITIES, 2)
    asked = {"role": "user", "content": f"How warm is {one}?"}
    kind = random.choice(["one", "one", "two", "result", "none"])
    if kind == "one":
        return [asked], f"<think>I must look at {one}.</think>{written_call(one)}"
    if kind == "two":
        both = {"role": "user", "content": f"How warm are {one} and {two}?"}
        return [both], f"<think>I must look twice.</think>{written_call(one)}{written_call(two)}"
    if kind == "none":
        return [{"role": "user", "content": "Hello."}], "<think>No need.</think>Hello to you."
    degrees = random.randrange(2, 30)
    function = {"name": "weather", "arguments": {"city": one}}
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": function}]}
    result = {"role": "tool", "content": f"{degrees} degrees"}
    return [asked, call, result], f"It is {degrees} degrees in {one}."


def teach(folder: Path) -> None:
    random = Random(0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = RATE * min(1.0, (step + 1) / 10) * (1 - step / STEPS)
        rows = []
        for _ in range(ROWS):
            messages, answer = lesson(random)
            prompt = tokenizer.apply_chat_template(
                messages, tools=TOOLS, tokenize=False, add_generation_prompt=True
            )
            ids = [
                tokenizer(text, add_special_tokens=False).input_ids
                for text in (prompt, f"{answer}<|im_end|>")
            ]
            rows.append((ids[0] + ids[1], [-100] * len(ids[0]) + ids[1]))
        longest = max(len(ids) for ids, _ in rows)
        ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in rows])
        labels = torch.tensor([one + [-100] * (longest - len(one)) for _, one in rows])
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = copytree(FOLDER, tmp_path_factory.mktemp("taught") / "model")
    (folder / "SHA256SUMS").unlink()
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["chat_template"] = TEMPLATE
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    teach(folder)
    config = EngineConfig(model=str(folder), dtype="float32", device="cpu", max_model_len=512)
    with serving(
        LLMEngine.from_model(config, load_model(config)),
        enable_auto_tool_choice=True, tool_call_parser="hermes", reasoning_parser="qwen3",
    ) as live:  # fmt: skip
        yield live


def test_the_model_decides_itself_to_think_call_and_use_the_result(taught: LiveServer) -> None:
    client = taught.openai()
    fields = {
        "model": client.models.list().data[0].id, "tools": TOOLS, "temperature": 0,
        "max_tokens": 100,
    }  # fmt: skip

    def ask(*messages: object, **more: object) -> object:
        return client.chat.completions.create(messages=list(messages), **fields, **more).choices[0]

    question = {"role": "user", "content": "How warm is Rome?"}
    first = ask(question)
    assert first.finish_reason == "tool_calls" and first.message.content is None
    assert first.message.reasoning_content == "I must look at Rome."
    (call,) = first.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == (
        "weather",
        {"city": "Rome"},
    )
    result = {"role": "tool", "tool_call_id": call.id, "content": "7 degrees"}
    second = ask(question, first.message, result)
    assert second.finish_reason == "stop" and second.message.tool_calls is None
    assert second.message.content == "It is 7 degrees in Rome."

    both = {"role": "user", "content": "How warm are Paris and Tokyo?"}
    calls = ask(both).message.tool_calls
    assert len(calls) == 2  # which cities is the model's affair
    assert all(json.loads(one.function.arguments)["city"] in CITIES for one in calls)
    assert len(ask(both, parallel_tool_calls=False).message.tool_calls) == 1
    deltas = [
        chunk.choices[0].delta
        for chunk in client.chat.completions.create(messages=[both], stream=True, **fields)
    ]
    pieces = [one for delta in deltas for one in delta.tool_calls or ()]
    for index, whole in enumerate(calls):
        mine = [one.function.arguments for one in pieces if one.index == index]
        assert "".join(mine) == whole.function.arguments

    hello = ask({"role": "user", "content": "Hello."})
    assert hello.finish_reason == "stop" and hello.message.tool_calls is None
    assert hello.message.content == "Hello to you."
