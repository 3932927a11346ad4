"""Masks: llguidance's equal our own automaton's, and each row of logits gets the one it needs."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import llguidance
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.model.sampler_reference import make_sequence

from minivllm.core.request import Request, Sequence
from minivllm.core.scheduler_output import DraftedSequence
from minivllm.runtime.sampling.grammar_bitmask import apply_grammar_bitmask
from minivllm.runtime.sampling.sampler import Sampler
from minivllm.sampling_params import SamplingParams, StructuredOutputsParams
from minivllm.structured_output.grammar import StructuredOutputGrammar
from minivllm.structured_output.manager import StructuredOutputManager
from minivllm.structured_output.reference import RegexAutomaton, bitmask, vocabulary_bytes

ATOMS = st.sampled_from(["a", "b", " the", "é", "🦊", "[a-f]", r"\.", "[ -~]", "x?"])
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


@pytest.fixture(scope="module")
def prepare(house) -> Callable[[str], StructuredOutputGrammar]:
    """Prepare a grammar that has read nothing yet. Equal ones are compiled once."""
    manager = StructuredOutputManager(house.tokenizer, in_background=False)

    def prepared(regex: str) -> StructuredOutputGrammar:
        grammar = manager.prepare(StructuredOutputsParams(regex=regex))
        grammar.settle()
        return grammar

    return prepared


@settings(max_examples=12, derandomize=True, database=None)
@given(pattern=PATTERNS, choices=st.lists(st.integers(0, 9999), max_size=6))
@example(pattern="(a|b){1,3}", choices=[0, 1])
def test_the_library_and_the_automaton_allow_the_same_tokens(house, library, pattern, choices):
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
        going_on = [token_id for token_id in allowed if token_id not in eos]
        if not going_on:
            break
        token_id = going_on[choice % len(going_on)]
        state = automaton.advance(state, vocabulary[token_id])
        assert matcher.consume_token(token_id)


@pytest.mark.parametrize(
    "pattern", ["(a", "a)", "*a", "[]", ".", "[^a]", "[a-é]", r"\d", "a$", "a*?", "\\"]
)
def test_the_automaton_refuses_a_pattern_that_it_cannot_read(pattern: str) -> None:
    with pytest.raises(ValueError, match="cannot read"):
        RegexAutomaton(pattern)


# ---- the table that turns the bytes of a mask into what is added to the logits ----

SIZES = st.sampled_from([1, 7, 8, 9, 31, 32, 33, 64, 259, 2048])


@settings(max_examples=80, derandomize=True, database=None)
@given(vocab=SIZES, covered=SIZES, data=st.data())
def test_all_logits_but_those_of_allowed_tokens_become_minus_infinity(vocab, covered, data) -> None:
    """A model's vocabulary may have more rows than its tokenizer has tokens, or fewer."""
    ids = st.integers(0, covered - 1) | st.sampled_from([0, covered - 1])
    allowed = data.draw(st.sets(ids, max_size=40))
    logits = torch.randn(vocab, generator=torch.Generator().manual_seed(vocab))
    logits[data.draw(st.integers(0, vocab - 1))] = -torch.inf
    before = logits.clone()
    masked = apply_grammar_bitmask(logits, bitmask(allowed, covered))
    expected = [value if i in allowed else -torch.inf for i, value in enumerate(before.tolist())]
    assert masked.tolist() == expected and masked.dtype == torch.float32
    assert torch.equal(logits, before) and masked.data_ptr() != logits.data_ptr()


# ---- rows of one step: each gets the mask of its own tokens ----


class Row(NamedTuple):
    """What a grammar reads of a sequence."""

    index: int
    output_token_ids: list[int]


def allowed_after(grammar: StructuredOutputGrammar, output: list[int], index: int = 0) -> set[int]:
    mask = np.frombuffer(grammar.bitmask(Row(index, output)), np.uint8)
    return set(np.flatnonzero(np.unpackbits(mask, bitorder="little")).tolist())


@settings(max_examples=40, derandomize=True, database=None)
@given(
    visits=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 9), st.lists(st.integers(0, 9999), max_size=6)),
        max_size=12,
    )
)
def test_a_mask_depends_only_on_the_tokens_that_the_row_has_now(house, prepare, visits) -> None:
    """Preemption keeps tokens, rejected drafts take some back, samples part: nothing else counts.

    Each visit keeps some tokens of its sequence, adds allowed ones, and may go back at the next.
    """
    regex = "([a-f]{1,9} ){2,6}(é|!)?"
    used, outputs = prepare(regex), {}
    eos = house.tokenizer.eos_token_ids
    for index, kept, choices in visits:
        output = outputs[index] = outputs.get(index, [])[:kept]
        for choice in choices:
            going_on = sorted(allowed_after(used, output, index) - eos)
            if not going_on:
                break
            output = outputs[index] = [*output, going_on[choice % len(going_on)]]
        mask = used.bitmask(Row(index, output))
        assert mask == prepare(regex).bitmask(Row(0, output))
        assert mask == used.bitmask(Row(index, output))


def test_rows_with_and_without_a_grammar_and_rows_after_drafts_share_one_step(house, prepare):
    """Four drafts make five rows. The third is refused, so the token of its row does not matter."""
    end_ids, encode = house.tokenizer.eos_token_ids, house.tokenizer.encode
    digits, letters = "[0-9]{2}(fox|hen)", "[a-d]{9}"
    plain = SamplingParams(temperature=1.0, seed=1)

    def masked(name: str, regex: str) -> Sequence:
        params = replace(plain, structured_outputs=StructuredOutputsParams(regex=regex))
        return Sequence(Request(name, [5], params, grammar=prepare(regex)), 0, [5])

    drafts = [token_id for text in "12x3" for token_id in encode(text)]
    drafted = masked("drafted", digits)
    after = [DraftedSequence(drafted, drafts[:end]) for end in range(1, 5)]
    rows = [
        make_sequence(plain, [5], request_id="plain"), drafted, *after, masked("other", letters),
        make_sequence(plain, [5], request_id="plain too"),
    ]  # fmt: skip
    shape = len(rows), house.tokenizer.vocab_size
    logits = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    together = [token.token_id for token in Sampler(end_ids)(logits, rows)]
    for row, regex, output in [
        (1, digits, []), (2, digits, drafts[:1]), (3, digits, drafts[:2]), (6, letters, []),
    ]:  # fmt: skip
        assert together[row] in allowed_after(prepare(regex), output)
    refused = [drafted.request.grammar.bitmask(row) is None for row in after]
    assert refused == [False, False, True, True]
    for row in (0, 1, 2, 3, 6, 7):
        (alone,) = Sampler(end_ids)(logits[row : row + 1], [rows[row]])
        assert alone.token_id == together[row]
