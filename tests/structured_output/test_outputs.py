"""Outputs fit their form: random schemas, and every schedule gives the same tokens."""

import json
import re
from collections.abc import Callable

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.engine.followed_run import FollowedRun
from support.random_schemas import SCHEMAS, object_schema

from minivllm.config import SpeculativeConfig
from minivllm.events import types as ev


@pytest.mark.parametrize("number", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_outputs_fit_random_schemas_at_temperature_one(generate, house, number: int) -> None:
    """Ten schemas in each of the `number` examples."""

    @settings(max_examples=number, derandomize=True, database=None)
    @given(st.lists(SCHEMAS, min_size=10, max_size=10))
    def check(schemas: list[dict]) -> None:
        asked = [("Write a story.", {"json": schema}, {"max_tokens": 300}) for schema in schemas]
        run = generate(asked, max_model_len=384, num_gpu_blocks_override=480)
        assert run.of(ev.RequestAborted) == []
        ended = [event.seq_id for event in run.of(ev.RequestFinished) if event.reason == "stop"]
        assert len(ended) >= len(schemas) // 2
        for name in (seq_id.removesuffix(".0") for seq_id in ended):
            text = house.tokenizer.decode(run.outputs[name][0])
            jsonschema_rs.validate(schemas[int(name[1:])], json.loads(text))

    check()


FORMS = [
    {"disable_any_whitespace": True, "json": json.dumps(object_schema({
        "name": {"type": "string", "maxLength": 9},
        "age": {"type": "integer", "maximum": 99}}, 0))},
    {"regex": r"(yes|no), [a-z ]{5,30}(é|!)"},
    {"choice": ["fox", "fox and hen", 'a "hen"\n']},
    {"grammar": 'start: "(" start ")" | WORD\nWORD: /[a-z]{3,6}/'},
    {"json_object": True, "disable_any_whitespace": True},
]  # fmt: skip


def test_each_form_is_kept_and_its_request_stops(generate, house) -> None:
    run = generate([("A fox", form, {"temperature": 1.3, "n": 2}) for form in FORMS])
    texts = [[house.tokenizer.decode(ids) for ids in run.outputs[f"r{i}"]] for i in range(5)]
    ends = {event.seq_id: event.reason for event in run.of(ev.RequestFinished)}
    assert all(ends[f"r{number}.{index}"] == "stop" for number in range(3) for index in (0, 1))
    for text in texts[0]:
        jsonschema_rs.validate(json.loads(FORMS[0]["json"]), json.loads(text))
    assert all(re.fullmatch(FORMS[1]["regex"], text) for text in texts[1])
    assert all(text in FORMS[2]["choice"] for text in texts[2])
    for number, text in enumerate(texts[3]):
        if ends[f"r3.{number}"] == "stop":
            depth = len(re.match(r"\(*", text)[0])
            assert re.fullmatch(rf"\({{{depth}}}[a-z]{{3,6}}\){{{depth}}}", text)
    assert all(text.startswith("{") for text in texts[4])


CONTROL_TEXTS = ["<|im_end|>", "<|im_start|>", "<|endoftext|>", "<|", "end|>", "a", " ", '"', "é"]
SPELLED = st.lists(st.sampled_from(CONTROL_TEXTS), min_size=1, max_size=3).map("".join)


def forms_that_force(text: str) -> list[dict]:
    named = {"type": "object", "properties": {text: {"const": text}}, "required": [text]}
    return [
        {"choice": [text]},
        {"regex": re.escape(text)},
        {"json": {"const": text}, "disable_any_whitespace": True},
        {"json": named | {"additionalProperties": False}, "disable_any_whitespace": True},
    ]


@settings(max_examples=4, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(SPELLED, min_size=4, max_size=4), st.sampled_from([None, 4]))
def test_a_forced_text_that_spells_a_control_token_stays_text(generate, house, texts, num_drafts):
    requests = [
        ("A fox", form, {"max_tokens": 150}) for text in texts for form in forms_that_force(text)
    ]
    drafts = {"method": "ngram", "num_speculative_tokens": num_drafts, "prompt_lookup_min": 1}
    run = generate(requests, speculative_config=drafts if num_drafts else None, max_num_seqs=32)
    ends = {event.reason for event in run.of(ev.RequestFinished)}
    assert ends == {"stop"}
    written = [house.tokenizer.decode(run.outputs[f"r{i}"][0]) for i in range(len(requests))]
    for number, text in enumerate(texts):
        plain, by_regex, constant, record = written[4 * number : 4 * number + 4]
        assert plain == by_regex == json.loads(constant) == text
        assert json.loads(record) == {text: text}


def test_one_of_ten_thousand_choices_is_written(generate, house) -> None:
    choices = [f"{number}x" for number in range(10**4)]
    (tokens,) = generate([("A fox", {"choice": choices}, {})]).outputs["r0"]
    assert house.tokenizer.decode(tokens) in choices


SPECULATIONS = [
    None,
    SpeculativeConfig(method="ngram", num_speculative_tokens=4, prompt_lookup_min=1),
    SpeculativeConfig(method="draft_model", model="house", num_speculative_tokens=4),
]


@pytest.mark.parametrize("speculative_config", SPECULATIONS)
def test_a_model_that_wants_to_end_waits_until_its_grammar_may(generate, house, speculative_config):
    ends = house.tokenizer.eos_token_ids
    eager = {"logit_bias": dict.fromkeys(ends, 100.0), "temperature": 1.0}
    forms = [{"regex": "[a-z]{5,9}"}, {"choice": ["fox", "fox and hen"]}, FORMS[0]]
    run = generate(
        [("A fox", form, eager) for form in forms], speculative_config=speculative_config
    )
    ((word,), (choice,), (record,)) = (run.outputs[f"r{number}"] for number in range(3))
    # The first token after which the text may end is its last one, before the end token.
    assert word[-1] in ends and re.fullmatch("[a-z]{5,9}", house.tokenizer.decode(word[:-1]))
    assert len(house.tokenizer.decode(word[:-2])) < 5
    assert choice[-1] in ends and house.tokenizer.decode(choice) == "fox"
    jsonschema_rs.validate(json.loads(FORMS[0]["json"]), json.loads(house.tokenizer.decode(record)))
    assert all(ends.isdisjoint(tokens[:-1]) for tokens in (word, choice, record))
    assert {event.reason for event in run.of(ev.RequestFinished)} == {"stop"}


LONG = [
    {"json": {"type": "array", "items": {"type": "integer"}, "minItems": 40}},
    {"regex": r"(yes, |no, |é){40}", },
    {"json": object_schema({key: {"type": "boolean"} for key in ("a b", "age", "last")}, 0)},
    {"grammar": "root ::= word word root | word\nword ::= [a-z]+ [ ,]"},
]  # fmt: skip


@pytest.mark.parametrize("speculative_config", SPECULATIONS)
def test_preemption_hits_chunks_samples_and_drafts_change_no_token(generate, speculative_config):
    # Equal prompts hit each other's blocks.
    given = [{"temperature": 0.5 * i, "n": 1 + i % 2, "max_tokens": 24} for i in range(4)]
    requests = [("The fox. " * 4, *pair) for pair in zip(LONG, given, strict=True)]
    roomy = generate(requests, enable_prefix_caching=False, enable_chunked_prefill=False)
    small = {"num_gpu_blocks_override": 18, "max_num_batched_tokens": 12, "block_size": 4}
    tight = generate(requests, **small, speculative_config=speculative_config)
    assert tight.outputs == roomy.outputs
    counters = tight.engine.inspect().counters
    assert counters.num_preemptions and counters.prefix_cache_hits
    if speculative_config is not None:
        assert counters.spec_decode_num_accepted_tokens > 20


def test_forced_tokens_are_drafted_and_save_steps(generate: Callable[..., FollowedRun]) -> None:
    schema = object_schema({"a rather long name": {"const": "a rather long value"}}, 0)
    request = ("A fox", {"json": schema, "disable_any_whitespace": True}, {})
    plain, jumping = generate([request]), generate([request], speculative_config=SPECULATIONS[1])
    assert jumping.outputs == plain.outputs
    drafts = jumping.of(ev.DraftProposed)
    assert {draft.source for draft in drafts} == {"grammar"}
    assert max(len(draft.token_ids) for draft in drafts) == 4
    verified = [event.num_accepted for event in jumping.of(ev.DraftVerified)]
    assert verified == [len(draft.token_ids) for draft in drafts]
    assert jumping.engine.inspect().step < plain.engine.inspect().step / 2
