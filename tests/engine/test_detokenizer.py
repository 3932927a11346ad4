"""Incremental detokenization: the pieces, joined, are the text of all tokens at once, and none is
taken back.
"""

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as Backend

from minivllm.engine.detokenizer import IncrementalDetokenizer
from minivllm.runtime.text.tokenizer import Tokenizer


def sentencepiece_like() -> Tokenizer:
    """As Llama 2's: spaces are written \u2581, unknown characters as raw bytes, the text's first
    space is dropped.
    """
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["\u2581", "\u2581\u2581", "\u2581the", "\u2581a", "cat", "s", "é", "\u2581你"]
    pieces += ["\ufffd", "\n"]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    backend = Backend(models.BPE(vocab=vocab, merges=[], byte_fallback=True))
    backend.add_special_tokens([AddedToken(token, special=True) for token in pieces[:3]])
    steps = [decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    backend.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), *steps])
    return Tokenizer(backend, named_tokens={}, eos_token_ids=frozenset({2}), chat_template=None)


@pytest.fixture(scope="module")
def tokenizers(tiny_random_path, smollm2_path) -> dict[str, Tokenizer]:
    return {
        "bytes": Tokenizer.from_directory(tiny_random_path),
        "byte-level BPE": Tokenizer.from_directory(smollm2_path),
        "sentencepiece": sentencepiece_like(),
    }


def pieces_of(tokenizer: Tokenizer, token_ids: list[int]) -> list[str]:
    detokenizer = IncrementalDetokenizer(tokenizer)
    return [*(detokenizer.append(token_id) for token_id in token_ids), detokenizer.finish()]


KINDS = ["bytes", "byte-level BPE", "sentencepiece"]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), skip=st.booleans())
@settings(max_examples=200)
def test_pieces_joined_equal_decoding_any_tokens_at_once(tokenizers, kind, data, skip):
    """However they come: one by one, or several at once, as after a wait, or in the end."""
    tokenizer = tokenizers[kind]
    # Small ids are special tokens and single bytes, most of them no UTF-8 on their own: the hard
    # part. A few ids are beyond the vocabulary, as from a model whose embedding table is padded.
    token = st.one_of(st.integers(0, 275), st.integers(0, tokenizer.vocab_size + 2))
    group = st.one_of(token.map(lambda one: [one]), st.lists(token, max_size=12))
    groups, last = data.draw(st.lists(group, max_size=40)), data.draw(st.lists(token, max_size=12))
    detokenizer = IncrementalDetokenizer(tokenizer, skip_special_tokens=skip)
    pieces = [
        detokenizer.append(group[0]) if len(group) == 1 else detokenizer.extend(group)
        for group in groups
    ]
    pieces.append(detokenizer.finish(last))
    assert "".join(pieces) == tokenizer.decode([*chain(*groups), *last], skip)


@given(text=st.text(max_size=60))
@settings(max_examples=100)
def test_any_text_comes_back_whole_and_nothing_shown_is_ever_taken_back(tokenizers, text):
    # One token a byte. (SmolLM2 has no tokens for the bytes that begin the rarest characters.)
    tokenizer = tokenizers["bytes"]
    detokenizer = IncrementalDetokenizer(tokenizer, skip_special_tokens=False)
    shown = ""
    for token_id in tokenizer.encode(text):
        shown += detokenizer.append(token_id)
        assert text.startswith(shown)  # so no half character either: it would show as a U+FFFD
    assert shown + detokenizer.finish() == text


@pytest.mark.parametrize("kind", ["bytes", "byte-level BPE"])
def test_broken_bytes_are_shown_as_they_come_and_do_not_dam_up(tokenizers, kind):
    """A lone continuation byte (0x80, spelled \u0122) over and over: no character can ever come of
    it.
    """
    tokenizer = tokenizers[kind]
    broken = tokenizer._backend.token_to_id("\u0122")
    detokenizer = IncrementalDetokenizer(tokenizer)
    shown = [detokenizer.append(broken) for _ in range(50)]
    assert shown == ["", *["\ufffd"] * 49]
    assert detokenizer.finish() == "\ufffd"


def test_a_skipped_special_token_does_not_tear_a_character_apart(tokenizers):
    tokenizer = tokenizers["bytes"]
    first, second = tokenizer.encode("é")
    assert "".join(pieces_of(tokenizer, [first, 2, second])) == "é"


@pytest.mark.parametrize("kind", KINDS)
def test_no_token_costs_more_than_a_few_tokens_of_decoding(tokenizers, kind):
    """O(1) work a token: whatever comes, silent, broken or fine, the decoder sees a short window
    each time.
    """
    tokenizer = tokenizers[kind]

    class Counting:
        decoded = 0
        is_silent, is_byte_fallback = tokenizer.is_silent, tokenizer.is_byte_fallback

        def decode(self, token_ids, skip_special_tokens=True):
            self.decoded += len(token_ids)
            return tokenizer.decode(token_ids, skip_special_tokens)

    token_ids = [*range(3, 259), *[2] * 500, *[200] * 500, *[1] * 500] * 2
    counting = Counting()
    detokenizer = IncrementalDetokenizer(counting, skip_special_tokens=True)
    pieces = [*(detokenizer.append(token_id) for token_id in token_ids), detokenizer.finish()]
    assert "".join(pieces) == tokenizer.decode(token_ids)
    assert counting.decoded <= 12 * len(token_ids)
