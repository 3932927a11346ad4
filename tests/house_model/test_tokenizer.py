"""The house model's tokenizer: any text there and back."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def trained(tool):
    return tool("tokenizer").train_tokenizer(0, 150)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text())
def test_any_text_is_the_same_after_encoding_and_decoding(trained, text):
    ids = trained.encode(text, add_special_tokens=False).ids
    assert trained.decode(ids, skip_special_tokens=False) == text


def test_every_byte_is_a_token_and_special_tokens_come_first(trained, tool):
    tokenizer = tool("tokenizer")
    vocabulary = trained.get_vocab()
    assert set(tokenizer.pre_tokenizers.ByteLevel.alphabet()) <= set(vocabulary)
    assert [vocabulary[token] for token in tokenizer.SPECIAL_TOKENS] == [0, 1, 2]


def test_each_digit_is_a_token_of_its_own(trained):
    assert trained.encode("age 2026").tokens[-4:] == ["2", "0", "2", "6"]
