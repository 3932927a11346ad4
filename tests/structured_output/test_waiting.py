"""Requests wait for their grammars, and refused ones leave the engine untouched."""

import json
import re
import threading
from concurrent.futures import Future

import pytest
from support.engine.engine_fakes import run_to_the_end
from support.engine.followed_run import FollowedRun

from minivllm import SamplingParams
from minivllm.clock import MonotonicClock
from minivllm.config import EngineConfig, SpeculativeConfig
from minivllm.core.request import Request, Sequence
from minivllm.engine.engine import LLMEngine
from minivllm.errors import InvalidSamplingParamsError, UnusableGrammarError
from minivllm.events import types as ev
from minivllm.sampling_params import StructuredOutputsParams
from minivllm.structured_output import manager
from minivllm.structured_output.grammar import StructuredOutputGrammar
from minivllm.structured_output.manager import StructuredOutputManager
from minivllm.structured_output.specification import Specification

DIGITS = StructuredOutputsParams(regex="[0-9]{3}")


def after(*output: int) -> Sequence:
    sequence = Sequence(Request("a", [5], SamplingParams()), 0, [5])
    sequence.token_ids += output
    return sequence


@pytest.mark.parametrize(("policy", "batching"), [("fcfs", "continuous"), ("priority", "static")])
def test_others_pass_a_request_whose_grammar_is_not_compiled(house, monkeypatch, policy, batching):
    compiled = Future()
    monkeypatch.setattr(
        StructuredOutputManager, "prepare",
        lambda self, params: StructuredOutputGrammar(
            "regex", compiled, house.tokenizer.eos_token_ids
        ),
    )  # fmt: skip
    run = FollowedRun(house, scheduling_policy=policy, batching=batching)
    run.add("slow", [5, 6, 7], {"ignore_eos": False, "structured_outputs": DIGITS})
    assert run.fold.sequences["slow.0"].deferred == ("grammar_not_compiled", 0, 0)
    run.step()  # alone, it waits in a step without work
    run.add("quick", [5, 6, 7], {})
    for _ in range(12):
        run.step()
    assert "quick" not in run.fold.requests
    assert run.fold.sequences["slow.0"].deferred == ("grammar_not_compiled", 0, 0)
    own = StructuredOutputManager(house.tokenizer, in_background=False)
    compiled.set_result(own._compile(Specification.of(DIGITS)))
    run.finish()
    assert house.tokenizer.decode(run.outputs["slow"][0]).isdigit()
    assert [event.seq_id for event in run.of(ev.RequestAdmitted)] == ["quick.0", "slow.0"]


def test_grammars_are_compiled_in_a_thread_and_only_once(house, monkeypatch) -> None:
    checked = []
    monkeypatch.setattr(manager, "check", checked.append)
    engine = LLMEngine.from_model(EngineConfig(model="house"), house, clock=MonotonicClock())
    params = SamplingParams(seed=1, structured_outputs=DIGITS)
    go_on, compiles = threading.Event(), StructuredOutputManager._compile
    monkeypatch.setattr(
        StructuredOutputManager, "_compile",
        lambda self, specification: (go_on.wait(2), compiles(self, specification))[1],
    )  # fmt: skip
    assert not engine.grammars.prepare(DIGITS).settle(), "nobody waits for it"
    go_on.set()
    for name in "ab":
        engine.add_request(name, "A fox", params)
    texts = {name: output.outputs[0].text for name, output in run_to_the_end(engine).items()}
    assert texts["a"] == texts["b"] and texts["a"].isdigit() and len(texts["a"]) == 3
    assert checked == [Specification.of(DIGITS)]


@pytest.mark.parametrize("drafts", [None, {"method": "ngram", "num_speculative_tokens": 4}])
def test_no_output_leaves_a_grammar_that_explodes_and_later_requests_compile_it_anew(house, drafts):
    """llguidance shares state between the outputs of a grammar, and an error of one ends all."""
    config = None if drafts is None else SpeculativeConfig.of(drafts)
    run = FollowedRun(house, speculative_config=config)
    form = StructuredOutputsParams(regex="[a-z]{12}x+(a|aa|aaa|aaaa){5000}|[0-9]{40}")
    params = {"max_tokens": 60, "ignore_eos": False, "structured_outputs": form}
    digits = dict.fromkeys((house.tokenizer.encode(digit)[0] for digit in "0123456789"), 9.0)
    texts = []
    for _ in range(2):
        for seed in range(4):
            bias = {"logit_bias": digits} if seed == 3 else {}
            own = params | bias | {"seed": seed}
            run.add(f"r{seed}", house.tokenizer.encode("A fox, a fox"), own)
        for output in run_to_the_end(run.engine).values():
            assert "too complex" in output.error
            assert output.error_type is UnusableGrammarError
            texts.append(house.tokenizer.decode(output.outputs[0].token_ids))
    assert all(re.fullmatch("[a-z]{1,11}|[a-z]{12}x*a*|[0-9]{1,40}", text) for text in texts)
    assert sum(text.isdigit() for text in texts) == 2 and len(texts) == 8


BAD = [
    ({"json": "{"}, "json"),
    ({"json": {"not": {}}}, "not"),
    ({"json": {"oneOf": [{"type": "number"}, {"type": "integer"}]}}, "use anyOf"),
    ({"grammar": 'start: %json {"oneOf": [{"enum": [1]}, {"enum": [2, 1]}]}'}, "use anyOf"),
    ({"json": "x" * 1_000_000}, "1,000,000"),
    ({"json": {"a": {1}}}, "json"),
    ({"json": {"minimum": 3, "maximum": 2, "type": "integer"}}, "minimum"),
    ({"json": "[" * 50_000}, "json"),
    ({"regex": "(a"}, "unclosed"),
    ({"regex": "a(?=b)"}, "look-around"),
    ({"regex": r"[^\s\S]"}, "fits no text"),
    ({"regex": "(" * 30_000 + "a" + ")" * 30_000}, "regex"),
    ({"regex": "(((a{1000}){1000}){1000})"}, "too complex"),
    ({"regex": "x+(a|aa|aaa|aaaa){5000}"}, "too complex"),
    ({"regex": "\ud800"}, "regex"),
    ({"grammar": "start: foo"}, "foo"),
    ({"choice": ["a"] * 30_000}, "choice"),
    ({"choice": [3]}, "choice"),
    ({"json_object": "yes"}, "json_object"),
    ({}, "exactly one"),
    ({"regex": "a", "json_object": True}, "regex and json_object"),
    ({"regex": "a", "disable_any_whitespace": True}, "disable_any_whitespace"),
]


def test_a_form_that_cannot_work_is_refused_before_anything_changes(house) -> None:
    run = FollowedRun(house)
    before = run.engine.inspect()
    for fields, word in BAD:
        with pytest.raises(InvalidSamplingParamsError, match=r"^structured_outputs") as raised:
            form = StructuredOutputsParams(**fields)
            run.add("bad", [5], {"ignore_eos": False, "structured_outputs": form})
        message = str(raised.value)
        assert word in message and message.endswith(".") and "\n" not in message
        assert len(message) < 400
    assert run.engine.inspect() == before and run.events == []


DIGIT = {"json": {"type": "string", "pattern": r"^\d$"}}
ONE_OF = {"json": {"oneOf": [{"type": "null"}, {"type": "integer"}]}}


@pytest.mark.parametrize(("form", "text", "fits"), [
    (ONE_OF, "null", True), ({"regex": r"\d"}, "٣", True), (DIGIT, '"3"', True),
    (DIGIT, '"٣"', False),
])  # fmt: skip
def test_a_disjoint_one_of_works_and_only_a_regex_has_all_digits(house, form, text, fits):
    own = StructuredOutputManager(house.tokenizer, in_background=False)
    grammar, tokens = own.prepare(StructuredOutputsParams(**form)), house.tokenizer.encode(text)
    assert (grammar.validate_tokens(after(), tokens) == tokens) == fits


@pytest.mark.parametrize(
    "grammar",
    [
        'start: "b" | "c" x\nx: A x\nA: /x+/',
        '%llguidance {"no_forcing": false}\nstart: "b" | "c" x\nx: A x\nA: /x+/',
    ],
)
def test_a_branch_that_repeats_one_letter_for_ever_ends_with_max_tokens(generate, grammar) -> None:
    """If llguidance collected the forced letters, the engine's thread would never return."""
    run = generate([("A fox", {"grammar": grammar}, {"max_tokens": 20, "seed": seed})
                    for seed in range(4)])  # fmt: skip
    texts = [run.engine.tokenizer.decode(samples[0]) for samples in run.outputs.values()]
    assert all(re.fullmatch("b|cx+", text) for text in texts) and any("x" in text for text in texts)


LINK = {"type": "object", "properties": {"n": {"$ref": "#"}}, "required": ["n"]}


@pytest.mark.parametrize("form", [
    {"grammar": 'start: "a" start'}, {"json": LINK | {"additionalProperties": False}},
    {"json": {"type": "array", "items": {"$ref": "#"}, "minItems": 1}},
])  # fmt: skip
def test_a_form_without_an_end_ends_with_max_tokens(generate, form: dict) -> None:
    run = generate([("A fox", form, {"max_tokens": 20})])
    assert len(run.outputs["r0"][0]) == 20


def test_a_schema_may_be_a_long_chain_of_references(generate) -> None:
    """In a thread with the usual stack, this ends the process."""
    chain = {str(i): {"anyOf": [{"$ref": f"#/$defs/{i + 1}"}]} for i in range(2000)}
    schema = {"$ref": "#/$defs/0", "$defs": {**chain, "2000": {"enum": ["end"]}}}
    run = generate([("A fox", {"json": schema}, {})])
    assert run.engine.tokenizer.decode(run.outputs["r0"][0]) == '"end"'
    schema["$defs"]["2000"] = {"$ref": "#/$defs/0"}
    with pytest.raises(InvalidSamplingParamsError):
        run.engine.grammars.prepare(StructuredOutputsParams(json=schema))


@pytest.mark.parametrize("params", [{"min_tokens": 1}, {"ignore_eos": True}, {"beam_width": 2}])
def test_what_contradicts_a_grammar_is_refused(params: dict) -> None:
    with pytest.raises(InvalidSamplingParamsError, match="structured_outputs"):
        SamplingParams(**params, structured_outputs=DIGITS)


def test_reading_an_end_token_is_left_to_the_engine(house) -> None:
    """llguidance does not count that token when tokens are rolled back."""
    own = StructuredOutputManager(house.tokenizer, in_background=False)
    grammar = own.prepare(StructuredOutputsParams(regex="a*"))
    (a,) = house.tokenizer.encode("a")
    before, end = grammar.bitmask(after()), min(house.tokenizer.eos_token_ids)
    for row in (after(a, end), after(a, end, a)):
        assert grammar.bitmask(row) is None and not grammar.is_terminated(row)
    assert grammar.bitmask(after()) == before


def test_a_tokenizer_that_llguidance_cannot_read_refuses_forms_and_nothing_else(house, monkeypatch):
    monkeypatch.setattr(house.tokenizer, "to_json", lambda: "{}")
    run = FollowedRun(house)
    run.add("form", [5, 6, 7], {"ignore_eos": False, "structured_outputs": DIGITS})
    run.add("plain", [5, 6, 7], {})
    errors = {name: output.error for name, output in run_to_the_end(run.engine).items()}
    assert "leave structured_outputs out" in errors["form"] and errors["plain"] is None


def test_merges_with_a_control_token_do_not_stop_forms(house, monkeypatch) -> None:
    """The text of a control token can be what two tokens merge to, or a part of a longer one."""
    content, end = json.loads(house.tokenizer.to_json()), "<|im_end|>"
    vocab, pairs = content["model"]["vocab"], [["<", "|im_end|>"], [end, "x"]]
    vocab |= {"|im_end|>": len(vocab), end + "x": len(vocab) + 1}
    content["model"]["merges"] += pairs
    monkeypatch.setattr(house.tokenizer, "to_json", lambda: json.dumps(content))
    own = StructuredOutputManager(house.tokenizer, in_background=False)
    form = own.prepare(StructuredOutputsParams(choice=[end]))
    assert house.tokenizer.decode(form.forced_tokens(after())) == end


def test_a_compiled_grammar_is_kept_while_few_others_are_used_after_it(house, monkeypatch) -> None:
    monkeypatch.setattr(manager, "CACHE_SIZE", 2)
    own, compiled = StructuredOutputManager(house.tokenizer, in_background=False), []
    monkeypatch.setattr(manager, "check", lambda form: compiled.append(form.text))
    for regex in "abacab":
        own.prepare(StructuredOutputsParams(regex=regex))
    assert "".join(compiled) == "abcb"


def test_the_state_of_a_watched_grammar_comes_before_its_token(house) -> None:
    run = FollowedRun(house, explain_tokens=True, max_num_seqs=4)
    form = StructuredOutputsParams(json={"type": "object", "properties": {"age": {
        "type": "integer", "maximum": 99}}, "required": ["age"]})  # fmt: skip
    params = {"ignore_eos": False, "n": 2, "seed": 2, "max_tokens": 12, "structured_outputs": form}
    run.add("a", house.tokenizer.encode("A fox"), params)
    run.add("plain", [5, 6, 7], {})
    run.finish()
    states = {(state.seq_id, state.position): state for state in run.of(ev.GrammarState)}
    explained = [event for event in run.of(ev.TokenExplained) if event.token_id is not None]
    own = [event for event in explained if event.seq_id != "plain.0"]
    assert set(states) == {(event.seq_id, event.position) for event in own}
    assert len(states) == len(run.of(ev.GrammarState))  # the preview and the draw share one
    for event in own:
        state, (cut, *_) = states[event.seq_id, event.position], event.cuts
        assert state.seq < event.seq
        assert (cut.name, cut.num_left) == ("structured_outputs", state.num_allowed)
        assert state.forced == (event.num_left == 1 == state.num_allowed)
        refused = [token for token in event.candidates if token.cut_by == "structured_outputs"]
        if refused:
            best = max(refused, key=lambda candidate: candidate.logit)
            assert state.refused_token_id == best.token_id
            assert state.refused_probability == pytest.approx(best.probability, rel=1e-4)
    assert any(state.forced for state in states.values())
    pieces = run.fold.token_pieces
    assert all(state.refused_token_id in pieces for state in states.values())
