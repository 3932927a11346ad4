"""`/v1/completions` through OpenAI's own client."""

import openai
import pytest
import torch
from openai import OpenAI
from support.server.live_server import LiveServer
from transformers import AutoModelForCausalLM

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import RequestOutputKind, SamplingParams

MODEL = "tiny-random"


@pytest.fixture
def client(tiny_server: LiveServer) -> OpenAI:
    return tiny_server.openai()


def offline(tiny_model, prompt: object, **params: object) -> RequestOutput:
    """The output of the engine without a server."""
    config = EngineConfig(
        model="tiny-random", dtype="float32", num_gpu_blocks_override=200, block_size=8
    )
    engine = LLMEngine.from_model(config, tiny_model)
    engine.add_request(
        "r", prompt, SamplingParams(**params, output_kind=RequestOutputKind.FINAL_ONLY)
    )
    while engine.has_unfinished_requests():
        outputs = engine.step()
    return outputs[0]


def chunks_of(client: OpenAI, **fields: object) -> list:
    """The chunks of a stream, from a client that accepts them without a finish reason."""
    loose = OpenAI(base_url=client.base_url, api_key=client.api_key, max_retries=0)
    return list(loose.completions.create(stream=True, **fields))


def streamed(client: OpenAI, **fields: object) -> dict[int, str]:
    """The joined texts by index; fails unless each choice ends exactly once."""
    texts: dict[int, str] = {}
    ended: dict[int, str] = {}
    ids = set()
    for chunk in chunks_of(client, model=MODEL, **fields):
        ids.add((chunk.id, chunk.created, chunk.model))
        for choice in chunk.choices:
            assert choice.index not in ended
            texts[choice.index] = texts.get(choice.index, "") + choice.text
            if choice.finish_reason is not None:
                ended[choice.index] = choice.finish_reason
    assert len(ids) == 1
    assert ended.keys() == texts.keys()
    return texts


def test_a_greedy_completion_equals_the_offline_output(client, tiny_model):
    answer = client.completions.create(
        model=MODEL, prompt="Hello there", max_tokens=12, temperature=0
    )
    expected = offline(tiny_model, "Hello there", max_tokens=12, temperature=0)
    assert answer.choices[0].text == expected.outputs[0].text
    assert answer.choices[0].finish_reason == expected.outputs[0].finish_reason
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (11, 12, 23)


def test_choice_i_of_prompt_p_has_index_p_times_n_plus_i_as_text_or_ids_streamed_or_not(
    client, tiny_server
):
    fields = {"prompt": ["one", "two and more"], "n": 3, "seed": 5, "max_tokens": 7}
    answer = client.completions.create(model=MODEL, **fields)
    texts = [choice.text for choice in answer.choices]
    assert [choice.index for choice in answer.choices] == list(range(6))
    assert len(set(texts[:3])) == 3
    ids = [tiny_server.engine.tokenizer.encode(text) for text in fields["prompt"]]
    for prompts in (fields["prompt"], [ids], ids):
        answers = [
            client.completions.create(model=MODEL, **fields | {"prompt": prompt})
            for prompt in prompts
        ]
        assert [choice.text for one in answers for choice in one.choices] == texts
    assert streamed(client, **fields) == {choice.index: choice.text for choice in answer.choices}


@pytest.mark.parametrize("count", [None, 5])
def test_logprobs_come_in_four_lists_of_one_length(client, count):
    fields = {"model": MODEL, "prompt": "log", "max_tokens": 6, "temperature": 0, "logprobs": count}
    logprobs = client.completions.create(**fields).choices[0].logprobs
    if count is None:
        assert logprobs is None
        return
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset) == 6
    for token, value, top in zip(
        logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, strict=True
    ):
        assert value <= 0
        # lm-eval compares these floats to see whether the token was the best.
        assert top[token] == value == max(top.values())
        assert 1 <= len(top) <= max(count, 1)


def test_text_offsets_are_the_same_streamed_and_whole_while_text_is_held_back(tiny_server):
    # an echo's first token has null, for which OpenAI has no type
    client = tiny_server.openai(strict=False)
    fields = {"prompt": "offset", "max_tokens": 12, "seed": 4, "logprobs": 1, "n": 2}
    fields["model"] = MODEL
    text = client.completions.create(**fields).choices[0].text
    fields["stop"] = [text[4:6] + "never comes"]
    for echo in (False, True):
        whole = client.completions.create(**fields, echo=echo)
        found: dict[int, dict[str, list]] = {}
        for chunk in chunks_of(client, **fields, echo=echo):
            for choice in chunk.choices:
                lists = found.setdefault(
                    choice.index, {"tokens": [], "text_offset": [], "token_logprobs": []}
                )
                for name, values in lists.items():
                    values += getattr(choice.logprobs, name)
        expected = {
            choice.index: {name: getattr(choice.logprobs, name) for name in found[0]}
            for choice in whole.choices
        }
        assert found == expected


def test_an_echoed_prompt_has_the_log_probabilities_that_transformers_computes(
    tiny_server, tiny_random_path
):
    client = tiny_server.openai(strict=False)
    peer = AutoModelForCausalLM.from_pretrained(tiny_random_path, dtype=torch.float32).eval()
    # in three chunks; the second request also finds cached blocks
    ids = [(7 * i) % 250 for i in range(300)]
    for _ in range(2):
        answer = client.completions.create(
            model=MODEL, prompt=ids, echo=True, logprobs=1, max_tokens=1, temperature=0, seed=1234
        )
        logprobs = answer.choices[0].logprobs
        with torch.inference_mode():
            expected = peer(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        assert logprobs.token_logprobs[0] is None
        assert logprobs.top_logprobs[0] is None
        assert len(logprobs.tokens) == 301
        rows = expected[:-1]
        of_ids = rows.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()
        assert logprobs.token_logprobs[1:300] == pytest.approx(of_ids, abs=1e-4)
        best = [max(one.values()) for one in logprobs.top_logprobs[1:300]]
        assert best == pytest.approx(rows.max(1).values.tolist(), abs=1e-4)
        assert answer.usage.prompt_tokens_details.cached_tokens == 0


def test_an_echo_puts_the_prompt_in_front_streamed_or_not(client):
    fields = {"prompt": ["say this", "and that"], "max_tokens": 5, "temperature": 0, "n": 2}
    plain = client.completions.create(model=MODEL, **fields)
    echoed = client.completions.create(model=MODEL, echo=True, **fields)
    expected = {c.index: fields["prompt"][c.index // 2] + c.text for c in plain.choices}
    assert {choice.index: choice.text for choice in echoed.choices} == expected
    assert streamed(client, echo=True, **fields) == expected


def test_an_echo_without_new_tokens_is_the_prompt_with_its_logprobs(tiny_server):
    client = tiny_server.openai(strict=False)
    prompts = ["say this", "and that"]
    fields = {"prompt": prompts, "echo": True, "logprobs": 2, "temperature": 0}
    score = client.completions.create(model=MODEL, **fields, max_tokens=0)
    with_token = client.completions.create(model=MODEL, **fields, max_tokens=1)
    for mine, longer in zip(score.choices, with_token.choices, strict=True):
        assert (mine.text, mine.finish_reason) == (prompts[mine.index], "length")
        assert len(mine.logprobs.tokens) == len(mine.text)
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            assert getattr(mine.logprobs, name) == getattr(longer.logprobs, name)[:-1]
    assert (score.usage.prompt_tokens, score.usage.completion_tokens) == (16, 0)
    assert streamed(client, max_tokens=0, **fields) == dict(enumerate(prompts))


def test_ids_prompt_logprobs_and_the_clients_request_id_come_back_on_request(client, tiny_server):
    fields = {"model": MODEL, "prompt": ["abc", "de"], "max_tokens": 4, "temperature": 0}
    extra = {"return_token_ids": True, "request_id": "my-1", "add_special_tokens": False}
    whole = client.completions.create(**fields, extra_body=extra | {"prompt_logprobs": 0})
    assert whole.id == "cmpl-my-1"
    for choice, prompt in zip(whole.choices, fields["prompt"], strict=True):
        told = choice.model_extra
        assert told["prompt_token_ids"] == tiny_server.engine.tokenizer.encode(prompt)
        assert len(told["token_ids"]) == 4
        assert told["prompt_logprobs"][0] is None
        (entry,) = told["prompt_logprobs"][1].values()
        assert entry.keys() == {"logprob", "rank", "decoded_token"}
        assert entry["decoded_token"] == prompt[1]
    streamed_ids: dict[int, list[int]] = {0: [], 1: []}
    prompts: dict[int, list] = {0: [], 1: []}
    for chunk in chunks_of(client, **fields, extra_body=extra):
        for choice in chunk.choices:
            streamed_ids[choice.index] += choice.model_extra["token_ids"]
            prompts[choice.index].append(choice.model_extra["prompt_token_ids"])
    for choice in whole.choices:
        assert streamed_ids[choice.index] == choice.model_extra["token_ids"]
        assert prompts[choice.index][0] == choice.model_extra["prompt_token_ids"]
        assert set(map(str, prompts[choice.index][1:])) == {"None"}


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("include", [False, True])
def test_a_stream_reports_its_usage_as_often_as_requested(client, include, continuous):
    options = {"include_usage": include, "continuous_usage_stats": continuous}
    chunks = chunks_of(
        client, model=MODEL, prompt="abc", max_tokens=4, temperature=0, stream_options=options
    )
    if not include:
        assert all(chunk.usage is None and chunk.choices for chunk in chunks)
        return
    assert chunks[-1].choices == []
    usage = chunks[-1].usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (3, 4, 7)
    assert all((chunk.usage is not None) is continuous for chunk in chunks[:-1])


@pytest.mark.parametrize(
    "extra", [{"best_of": 4}, {"temperature": 0, "extra_body": {"use_beam_search": True}}]
)
def test_texts_that_are_chosen_at_the_end_are_streamed_in_one_chunk_each(client, extra):
    fields = {"prompt": ["best", "of all"], "max_tokens": 6, "n": 2, "seed": 9} | extra
    if "extra_body" in extra:
        del fields["seed"]
    whole = client.completions.create(model=MODEL, **fields)
    chunks = chunks_of(client, model=MODEL, stream_options={"include_usage": True}, **fields)
    told = sorted(
        (one.index, one.text, one.finish_reason) for chunk in chunks for one in chunk.choices
    )
    assert told == [(one.index, one.text, one.finish_reason) for one in whole.choices]
    assert len(chunks) == len(told) + 1 == 5
    assert chunks[-1].choices == []
    assert chunks[-1].usage.prompt_tokens == 10
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_the_served_model_is_listed_and_can_be_requested(client):
    (card,) = client.models.list().data
    assert (card.id, card.model_extra["max_model_len"]) == (MODEL, 2048)
    assert (card.model_extra["root"], card.model_extra["weights"]) == (
        MODEL,
        "float32 created locally",
    )
    assert client.models.retrieve(MODEL) == card
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other/name")
