"""`/v1/completions` through OpenAI's own client."""

import openai
import pytest
from openai import OpenAI
from support.engine.engine_fakes import run_to_the_end
from support.server.live_server import joined

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import RequestOutputKind, SamplingParams

MODEL = "tiny-random"


def offline(tiny_model, prompt: object, **params: object) -> RequestOutput:
    """The output of the engine without a server."""
    config = EngineConfig(
        model="tiny-random", dtype="float32", num_gpu_blocks_override=200, block_size=8
    )
    engine = LLMEngine.from_model(config, tiny_model)
    params |= {"output_kind": RequestOutputKind.FINAL_ONLY}
    engine.add_request("r", prompt, SamplingParams(**params))
    return run_to_the_end(engine)["r"]


def chunks_of(client: OpenAI, **fields: object) -> list:
    """The chunks of a stream, from a client that accepts them without a finish reason."""
    loose = client.copy(_extra_kwargs={"_strict_response_validation": False})
    return list(loose.completions.create(stream=True, model=MODEL, **fields))


def streamed(client: OpenAI, **fields: object) -> dict[int, str]:
    return joined(chunks_of(client, **fields), lambda choice: choice.text)


def test_a_greedy_completion_equals_the_offline_output(client, tiny_model):
    cut = offline(tiny_model, "Hello there", temperature=0, max_tokens=9).outputs[0].text[3:6]
    for params in ({"max_tokens": 12}, {"max_tokens": 12, "stop": [cut]}, {}):
        answer = client.completions.create(
            model=MODEL, prompt="Hello there", temperature=0, **params
        )
        expected = offline(tiny_model, "Hello there", temperature=0, **params)
        (mine,), (theirs,) = answer.choices, expected.outputs
        assert (mine.text, mine.finish_reason) == (theirs.text, theirs.finish_reason)
        stopped_by = mine.model_extra["stop_reason"]
        assert stopped_by == theirs.stop_reason == (cut if "stop" in params else None)
        usage, num_tokens = answer.usage, len(theirs.token_ids)
        assert (usage.prompt_tokens, usage.completion_tokens) == (11, num_tokens)
        assert usage.total_tokens == 11 + num_tokens


def test_choice_i_of_prompt_p_has_index_p_times_n_plus_i_in_every_form(client, tiny_server):
    fields = {"prompt": ["one", "two and more"], "n": 3, "seed": 5, "max_tokens": 7}
    answer = client.completions.create(model=MODEL, **fields)
    texts = [choice.text for choice in answer.choices]
    assert [choice.index for choice in answer.choices] == list(range(6))
    assert len(set(texts[:3])) == 3
    ids = [tiny_server.engine.tokenizer.encode(text) for text in fields["prompt"]]
    for prompts in (fields["prompt"], [ids], ids):
        asked = [fields | {"model": MODEL, "prompt": prompt} for prompt in prompts]
        answers = [client.completions.create(**one) for one in asked]
        assert [choice.text for answer in answers for choice in answer.choices] == texts
    assert streamed(client, **fields) == {choice.index: choice.text for choice in answer.choices}


def test_logprobs_come_in_four_lists_of_one_length_with_the_best_token_first(client):
    fields = {"model": MODEL, "prompt": "log", "max_tokens": 6, "temperature": 0}
    assert client.completions.create(**fields).choices[0].logprobs is None
    logprobs = client.completions.create(**fields, logprobs=5).choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset) == 6
    for token, value, top in zip(
        logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, strict=True
    ):
        # lm-eval compares these floats to see whether the token was the best.
        assert top[token] == value == max(top.values()) <= 0
        assert 1 <= len(top) <= 5


def test_text_offsets_are_the_same_streamed_and_whole_while_text_is_held_back(tiny_server):
    # an echo's first token has null, for which OpenAI has no type
    client = tiny_server.openai(strict=False)
    fields = {"prompt": "offset", "max_tokens": 12, "seed": 4, "logprobs": 1, "n": 2}
    text = client.completions.create(model=MODEL, **fields).choices[0].text
    fields["stop"], names = [text[4:6] + "never comes"], ("tokens", "text_offset", "token_logprobs")
    for echo in (False, True):
        whole = client.completions.create(model=MODEL, **fields, echo=echo)
        found: dict[int, dict[str, list]] = {}
        for chunk in chunks_of(client, **fields, echo=echo):
            for choice in chunk.choices:
                lists = found.setdefault(choice.index, {name: [] for name in names})
                for name in names:
                    lists[name] += getattr(choice.logprobs, name)
        for choice in whole.choices:
            assert found[choice.index] == {name: getattr(choice.logprobs, name) for name in names}


def test_an_echo_puts_the_prompt_in_front_streamed_or_not(client):
    fields = {"prompt": ["say this", "and that"], "max_tokens": 5, "temperature": 0, "n": 2}
    plain = client.completions.create(model=MODEL, **fields)
    echoed = client.completions.create(model=MODEL, echo=True, **fields)
    expected = {c.index: fields["prompt"][c.index // 2] + c.text for c in plain.choices}
    assert {choice.index: choice.text for choice in echoed.choices} == expected
    assert streamed(client, echo=True, **fields) == expected


def test_an_echo_without_new_tokens_is_the_prompt_with_its_logprobs(tiny_server, tiny_model):
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
        judged = offline(tiny_model, mine.text, max_tokens=1, prompt_logprobs=2).prompt_logprobs
        ids = tiny_server.engine.tokenizer.encode(mine.text)
        assert mine.logprobs.token_logprobs[0] is None is judged[0]
        expected = [at[token_id].logprob for at, token_id in zip(judged, ids, strict=True) if at]
        assert mine.logprobs.token_logprobs[1:] == pytest.approx(expected, abs=1e-4)
    assert (score.usage.prompt_tokens, score.usage.completion_tokens) == (16, 0)
    assert streamed(client, max_tokens=0, **fields) == dict(enumerate(prompts))


def test_ids_prompt_logprobs_and_the_clients_request_id_come_back_on_request(client, tiny_server):
    fields = {"prompt": ["abc", "de"], "max_tokens": 4, "temperature": 0}
    extra = {"return_token_ids": True, "request_id": "my-1", "add_special_tokens": False}
    whole = client.completions.create(
        model=MODEL, **fields, extra_body=extra | {"prompt_logprobs": 0}
    )
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
        first, *later = prompts[choice.index]
        assert first == choice.model_extra["prompt_token_ids"] and not any(later)


@pytest.mark.parametrize("continuous", [False, True])
def test_a_stream_reports_its_usage_as_often_as_requested(client, continuous):
    fields = {"prompt": "abc", "max_tokens": 4, "temperature": 0}
    options = {"include_usage": True, "continuous_usage_stats": continuous}
    *chunks, last = chunks_of(client, **fields, stream_options=options)
    usage = last.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (3, 4, 7)
    assert last.choices == [] and all((chunk.usage is not None) is continuous for chunk in chunks)
    options["include_usage"] = False
    for chunk in chunks_of(client, **fields, stream_options=options):
        assert chunk.usage is None and chunk.choices


@pytest.mark.parametrize(
    "extra",
    [{"best_of": 4, "seed": 9}, {"temperature": 0, "extra_body": {"use_beam_search": True}}],
)
def test_texts_that_are_chosen_at_the_end_are_streamed_in_one_chunk_each(client, extra):
    fields = {"prompt": ["best", "of all"], "max_tokens": 6, "n": 2} | extra
    whole = client.completions.create(model=MODEL, **fields)
    chunks = chunks_of(client, stream_options={"include_usage": True}, **fields)
    told = sorted(
        (part.index, part.text, part.finish_reason) for chunk in chunks for part in chunk.choices
    )
    assert told == [(part.index, part.text, part.finish_reason) for part in whole.choices]
    assert len(chunks) == len(told) + 1 == 5
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage


def test_the_served_model_is_listed_and_can_be_requested(client):
    (card,) = client.models.list().data
    told = card.model_extra
    assert (card.id, told["root"], told["max_model_len"]) == (MODEL, MODEL, 2048)
    assert told["weights"] == "float32 created locally"
    assert client.models.retrieve(MODEL) == card
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other/name")
