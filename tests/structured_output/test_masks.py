"""The masks of llguidance are those of our own automaton, which walks the bytes of each token."""

import json

import llguidance
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minivllm.structured_output.endless import lark_can_end, schema_can_end
from minivllm.structured_output.reference import NOTHING, RegexAutomaton, vocabulary_bytes

ATOMS = st.sampled_from(["a", "b", " the", "é", "🦊", ".", "[a-f]", '[^"]', r"\.", "[ -~]", "x?"])
COUNTS = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, COUNTS).map(lambda two: f"({two[0]}){two[1]}"),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def library(house) -> llguidance.LLTokenizer:
    tokenizer = house.tokenizer
    return llguidance.LLTokenizer(tokenizer.to_json(), eos_token=sorted(tokenizer.eos_token_ids))


@settings(max_examples=60, derandomize=True, database=None)
@given(pattern=PATTERNS, choices=st.lists(st.integers(0, 9999), max_size=6))
def test_the_library_and_the_automaton_allow_the_same_tokens(
    house, library: llguidance.LLTokenizer, pattern: str, choices: list[int]
) -> None:
    tokenizer = house.tokenizer
    eos, vocabulary = tokenizer.eos_token_ids, vocabulary_bytes(tokenizer)
    automaton = RegexAutomaton(pattern)
    # Where only one text can follow, llguidance allows only its usual tokens, unless told not to.
    grammar = f'%llguidance {{"no_forcing": true}}\nstart: /{pattern}/'
    matcher, state = llguidance.LLMatcher(library, grammar, log_level=0), automaton.start
    for choice in [*choices, 0]:
        mask = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        theirs = np.flatnonzero(np.unpackbits(mask, bitorder="little")).tolist()
        allowed = automaton.allowed_tokens(state, vocabulary, eos)
        assert allowed == theirs
        assert automaton.may_end(state) == matcher.is_accepting()
        going_on = [one for one in allowed if one not in eos]
        if not going_on:
            break
        token_id = going_on[choice % len(going_on)]
        state = automaton.advance(state, vocabulary[token_id])
        assert matcher.consume_token(token_id)


def test_a_refused_byte_leads_to_nothing_and_stays_there() -> None:
    automaton = RegexAutomaton("(yes|no)+")
    state = automaton.advance(automaton.start, b"yes")
    assert automaton.may_end(state) and not automaton.may_end(automaton.start)
    assert automaton.advance(automaton.advance(state, b"x"), b"yes") == NOTHING


@pytest.mark.parametrize("pattern", ["(a", "a)", "[z", "[é]", "*", "a**", r"\d", "[]", "a{2"])
def test_the_automaton_refuses_what_it_cannot_read(pattern: str) -> None:
    with pytest.raises(ValueError, match="cannot read"):
        RegexAutomaton(pattern)


@pytest.mark.parametrize(
    ("grammar", "ends"),
    [
        ('start: "a" start', False),
        ('start: "a" start | "b"', True),
        ('start: a\na: b\nb: "x" a', False),
        ('start: (a | "b") a?\na: "x" a', True),
        ('start: [a] a* a{0,3} a~0..2 // a\na: "x" a', True),
        ('start: a{2}\na: "| x" a', False),
        ('start: %json {"type": {"a": 1}} rest\nrest: "a" rest', False),
        ('%llguidance {}\n?start[lazy]: "a" B\nB: /|/\n  | "y" B\n', True),
    ],
)
def test_a_grammar_ends_if_some_text_of_it_does(grammar: str, ends: bool) -> None:
    assert lark_can_end(grammar) == ends


LINK = {"type": "object", "properties": {"next": {"$ref": "#"}}}


@pytest.mark.parametrize(
    ("schema", "ends"),
    [
        (LINK, True),
        (LINK | {"required": ["next"]}, False),
        ({"anyOf": [{"type": "null"}, LINK | {"required": ["next"]}]}, True),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, False),
        ({"type": "array", "items": {"$ref": "#"}}, True),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"allOf": [{"$ref": "#/$defs/a~1b"}]}}}, False),
    ],
)
def test_a_schema_ends_if_some_value_of_it_does(schema: dict, ends: bool) -> None:
    assert schema_can_end(json.dumps(schema)) == ends
