"""`IncrementalDetokenizer`: turns the tokens of a growing sequence into text, piece by piece.

A character may take several tokens, and a token's text can depend on the token before
(sentencepiece drops a space at the start of a text). So a *window* of the last few tokens is
decoded, and the window's new text is returned.

The decoder writes U+FFFD for invalid bytes, and also for a character that the next token may
complete: exactly one, so only the *last* U+FFFD is held back. The joined pieces always equal the
text of all tokens decoded at once.

Windowed decoding comes from text-generation-inference and vLLM
(`vllm/transformers_utils/detokenizer_utils.py`).
"""

from collections.abc import Sequence as Seq
from typing import Protocol

_UNFINISHED = "\ufffd"
_MAX_TOKENS_OF_A_CHARACTER = 4
"""A UTF-8 character has at most four bytes, and a token has at least one byte."""


class TokenDecoder(Protocol):
    """The part of a tokenizer that the engine needs to turn tokens into text."""

    def decode(self, token_ids: list[int], skip_special_tokens: bool = True) -> str: ...

    def piece(self, token_id: int) -> str:
        """The text of one token for display, even if it is not a whole character."""

    def is_silent(self, token_id: int, skip_special_tokens: bool) -> bool:
        """Whether the token has no text: a skipped special token, or an unused id."""

    def is_byte_fallback(self, token_id: int) -> bool:
        """Whether the token is one raw byte. A run of such tokens must be decoded as a whole."""


class IncrementalDetokenizer:
    def __init__(self, decoder: TokenDecoder, *, skip_special_tokens: bool = True) -> None:
        self._decoder = decoder
        self._skip_special_tokens = skip_special_tokens
        self._window: list[int] = []
        """Tokens that are not fully shown yet, after a few shown tokens as context."""
        self._num_shown = 0
        """How many characters of the window's text have been returned."""

    def fork(self) -> "IncrementalDetokenizer":
        """Return a copy for a sequence with the same tokens so far."""
        other = IncrementalDetokenizer(self._decoder, skip_special_tokens=self._skip_special_tokens)
        other._window = list(self._window)
        other._num_shown = self._num_shown
        return other

    def append(self, *token_ids: int) -> str:
        """Return the text that is certain after these tokens, with a single decoding.

        Calling it for each token would give the same text.
        """
        # A silent token must not be context either.
        visible = [
            one for one in token_ids if not self._decoder.is_silent(one, self._skip_special_tokens)
        ]
        self._window += visible
        return self._show_after(visible[-1]) if visible else ""

    def finish(self, token_ids: Seq[int] = ()) -> str:
        """Add the sequence's last tokens; return all text that has not been returned yet.

        An unfinished character becomes U+FFFD.
        """
        text = self._decode([*self._window, *token_ids])[self._num_shown :]
        self._window.clear()
        self._num_shown = 0
        return text

    def _show_after(self, last: int) -> str:
        """Return the new and certain text of the window, whose last token is `last`."""
        if self._decoder.is_byte_fallback(last):
            # One invalid byte changes the text of the whole run of raw bytes.
            return ""
        text = self._decode(self._window)
        unfinished = text.endswith(_UNFINISHED)
        end = len(text) - unfinished
        shown = text[self._num_shown : end]
        self._num_shown = max(self._num_shown, end)
        self._shrink_window(unfinished)
        return shown

    def _shrink_window(self, unfinished: bool) -> None:
        # If all text was shown, one token of context is enough. Otherwise, also keep the tokens
        # that can be part of the unfinished character.
        keep = 1 + _MAX_TOKENS_OF_A_CHARACTER if unfinished else 1
        if len(self._window) > keep:
            del self._window[:-keep]
            self._num_shown = len(self._decode(self._window)) - unfinished

    def _decode(self, token_ids: list[int]) -> str:
        return self._decoder.decode(token_ids, skip_special_tokens=self._skip_special_tokens)
