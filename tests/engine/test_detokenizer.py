"""Incremental detokenization: the joined pieces are the full text, and nothing is taken back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as Backend

from minivllm.core.request import Request
from minivllm.engine.output_processor import IncrementalDetokenizer, OutputProcessor
from minivllm.runtime.store.model_store import resolve_model
from minivllm.runtime.text.tokenizer import Tokenizer
from minivllm.sampling_params import SamplingParams


def sentencepiece_like() -> Tokenizer:
    """Like Llama 2's: ▁ for spaces, raw bytes for unknown characters, no first space."""
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
def tokenizers(tiny_random_path) -> dict[str, Tokenizer]:
    return {
        "bytes": Tokenizer.from_directory(tiny_random_path),
        "byte-level BPE": Tokenizer.from_directory(resolve_model("house")),
        "sentencepiece": sentencepiece_like(),
    }


KINDS = ["bytes", "byte-level BPE", "sentencepiece"]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), skip=st.booleans())
@settings(max_examples=50)
def test_joined_pieces_equal_the_text_of_all_tokens_decoded_at_once(tokenizers, kind, data, skip):
    """However many tokens are left to the end."""
    tokenizer = tokenizers[kind]
    # Small ids are special tokens and single bytes, mostly invalid UTF-8 alone: the hard part. A
    # few ids are beyond the vocabulary, as with a padded embedding table.
    token = st.one_of(st.integers(0, 275), st.integers(0, tokenizer.vocab_size + 2))
    first, last = data.draw(st.lists(token, max_size=99)), data.draw(st.lists(token, max_size=12))
    detokenizer = IncrementalDetokenizer(tokenizer, skip_special_tokens=skip)
    pieces = [*(detokenizer.append(token_id) for token_id in first), detokenizer.finish(last)]
    assert "".join(pieces) == tokenizer.decode([*first, *last], skip)


@given(text=st.text(max_size=60))
@settings(max_examples=50)
def test_any_text_comes_back_whole_and_shown_text_never_changes(tokenizers, text):
    tokenizer = tokenizers["bytes"]  # one token per byte
    detokenizer = IncrementalDetokenizer(tokenizer, skip_special_tokens=False)
    shown = ""
    for token_id in tokenizer.encode(text):
        shown += detokenizer.append(token_id)
        assert text.startswith(shown)  # no half character either, since that would be U+FFFD
    assert shown + detokenizer.finish() == text


@pytest.mark.parametrize("kind", ["bytes", "byte-level BPE"])
def test_invalid_bytes_are_shown_at_once_and_do_not_pile_up(tokenizers, kind):
    """Repeat a lone continuation byte (0x80, spelled Ģ), which never forms a character."""
    tokenizer = tokenizers[kind]
    broken = tokenizer._backend.token_to_id("\u0122")
    detokenizer = IncrementalDetokenizer(tokenizer)
    shown = [detokenizer.append(broken) for _ in range(50)]
    assert shown == ["", *["\ufffd"] * 49]
    assert detokenizer.finish() == "\ufffd"


def test_two_beams_complete_a_character_that_they_share_in_part(tokenizers):
    tokenizer = tokenizers["bytes"]
    (first, second), (same, other) = tokenizer.encode("é"), tokenizer.encode("è")
    assert first == same
    outputs = OutputProcessor(tokenizer)
    parent = Request("a", [1], SamplingParams(beam_width=2)).sequences[0]
    outputs.add_sequence(parent)
    assert outputs.append_beam_token(parent, first, -1.0) == ""
    child = parent.fork()
    outputs.fork(parent, child)
    assert outputs.append_beam_token(parent, second, -2.0) == "é"
    assert outputs.append_beam_token(child, other, -2.0) == "è"


@pytest.mark.parametrize("kind", KINDS)
def test_no_token_costs_more_than_a_few_tokens_of_decoding(tokenizers, kind):
    """O(1) work per token: for any input, the decoder sees a short window each time."""
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


def test_a_piece_keeps_its_space_and_names_bytes_and_special_tokens(tokenizers):
    sentencepiece = tokenizers["sentencepiece"]
    wanted = ["<s>", "\n", "~", "<0xE2>", " ", "  ", " the", "cat", " 你", "\ufffd"]
    ids = [1, 3 + 0x0A, 3 + 0x7E, 3 + 0xE2, 259, 260, 261, 263, 266, 267]
    assert [sentencepiece.piece(token_id) for token_id in ids] == wanted
    assert sentencepiece.piece(10_000) == "", "an id of the padding has no text"
