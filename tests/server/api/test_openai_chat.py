"""`/v1/chat/completions` through OpenAI's own client, which validates every answer."""

import openai
import pytest
from support.server.in_process import in_process
from support.server.live_server import fake_engine, joined

MODEL = "tiny-random"
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]


def test_a_chat_is_the_completion_of_its_template(client, tiny_server):
    fields = {"model": MODEL, "temperature": 0}
    answer = client.chat.completions.create(messages=MESSAGES, max_completion_tokens=9, **fields)
    prompt = tiny_server.engine.tokenizer.apply_chat_template(MESSAGES)
    completion = client.completions.create(prompt=prompt, max_tokens=9, **fields)
    assert answer.choices[0].message.content == completion.choices[0].text
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == completion.choices[0].finish_reason
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (len(prompt), 9)


def test_a_streamed_chat_says_its_role_first_and_its_reason_last(client):
    fields = {"model": MODEL, "messages": MESSAGES, "max_completion_tokens": 10, "seed": 2, "n": 3}
    whole = client.chat.completions.create(**fields)
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(stream=True, stream_options=options, **fields))
    texts = joined(chunks, lambda choice: choice.delta.content or "")
    deltas = [(choice.index, choice.delta.role) for chunk in chunks for choice in chunk.choices]
    roles = [delta for delta in deltas if delta[1] is not None]
    assert roles == [(index, "assistant") for index in range(3)] == deltas[:3]
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    assert texts == {choice.index: choice.message.content for choice in whole.choices}
    assert len(set(texts.values())) == 3
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert [getattr(chunks[-1].usage, name) for name in counts] == [
        getattr(whole.usage, name) for name in counts
    ]


@pytest.mark.parametrize("top", [0, 3])
def test_chat_logprobs_name_each_token_and_its_alternatives(client, top):
    fields = {"messages": MESSAGES, "max_tokens": 5, "temperature": 0, "logprobs": True}
    fields |= {"model": MODEL, "top_logprobs": top}
    content = client.chat.completions.create(**fields).choices[0].logprobs.content
    assert len(content) == 5
    for entry in content:
        assert len(entry.top_logprobs) == top
        assert entry.bytes is None or bytes(entry.bytes).decode() == entry.token
        if top:
            assert entry.top_logprobs[0].logprob == entry.logprob
            values = [token.logprob for token in entry.top_logprobs]
            assert values == sorted(values, reverse=True)
    chunks = client.chat.completions.create(stream=True, **fields)
    streamed = [choice.logprobs for chunk in chunks for choice in chunk.choices if choice.logprobs]
    assert [entry for logprobs in streamed for entry in logprobs.content] == content


@pytest.mark.parametrize(
    ("num_blocks", "n", "ends"),
    # A prompt of 28 tokens, blocks of 4. Samples share its 7 full blocks, and the last token needs
    # no slot.
    [(100, 1, 200), (30, 2, 28 + 23 // 2 * 4 + 1), (9, 1, 37)],
    ids=["context", "memory of two", "little memory"],
)
def test_an_answer_without_max_tokens_ends_at_the_limit_of_context_or_memory(num_blocks, n, ends):
    with in_process(fake_engine(num_blocks, max_model_len=200)) as live:
        answer = live.openai().chat.completions.create(model="fake", messages=MESSAGES, n=n)
        assert answer.usage.prompt_tokens == 28
        assert answer.usage.completion_tokens == n * (ends - 28)
        assert {choice.finish_reason for choice in answer.choices} == {"length"}
        refused = {"messages": MESSAGES, "n": n, "max_tokens": ends - 28 + 1}
        if ends < 200:
            with pytest.raises(openai.BadRequestError, match="blocks"):
                live.openai().chat.completions.create(model="fake", **refused)


IMAGE = {"type": "image_url", "image_url": {"url": "http://x"}}
FUNCTION = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "assistant", "content": "x", "refusal": "no"}]}, "messages[0].refusal"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens"),
        ({"extra_body": {"chat_template": "{{ 1 }}"}}, "chat_template"),
        ({"tools": [FUNCTION]}, "tool_choice"),
        ({"extra_body": {"min_tokens": 100_000}}, "min_tokens"),
        ({"extra_body": {"add_special_tokens": True}}, "add_special_tokens"),
    ],
)  # fmt: skip
def test_a_bad_chat_request_is_refused_before_it_is_queued(client, tiny_server, fields, param):
    before = len(tiny_server.events)
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=MODEL, **{"messages": MESSAGES} | fields)
    assert (refused.value.type, refused.value.param) == ("invalid_request_error", param)
    assert len(tiny_server.events) == before


def test_fields_that_ask_for_nothing_change_nothing_and_text_in_parts_is_one_text(client):
    nothing = {
        "response_format": {"type": "text"}, "tools": [], "tool_choice": "none",
        "function_call": None, "truncate_prompt_tokens": None, "add_special_tokens": False,
        "spaces_between_special_tokens": True, "allowed_token_ids": None, "bad_words": [],
    }  # fmt: skip
    fields = {"model": MODEL, "max_tokens": 5, "temperature": 0}
    first = client.chat.completions.create(messages=MESSAGES, **fields).choices[0].message
    # An answer as a client stores it, with all fields, most of them null.
    told = first.model_dump() | dict.fromkeys(("audio", "function_call", "tool_calls"))
    told["annotations"] = []
    assert told["refusal"] is None
    parts = [{"type": "text", "text": "An"}, {"type": "text", "text": "d?"}]
    messages = [*MESSAGES, told, {"role": "user", "content": parts}]
    said = {"role": "assistant", "content": first.content}
    plain = [*MESSAGES, said, {"role": "user", "content": "And?"}]
    answers = [
        client.chat.completions.create(messages=messages, extra_body=nothing, **fields),
        client.chat.completions.create(messages=plain, **fields),
    ]
    assert answers[0].choices[0].message == answers[1].choices[0].message
    assert answers[0].usage.prompt_tokens == answers[1].usage.prompt_tokens
