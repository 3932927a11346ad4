"""`IncrementalDetokenizer`: the text of a growing sequence, piece by piece, never to be taken back.

Knows one sequence's tokens and a decoder; nothing of stop strings or requests, and no torch.

A token is bytes, not text. One character may take several tokens, and what a token looks like can
depend on the one before it (sentencepiece drops a space at the start of a text). So we decode a
*window* of the last few tokens and hand out what is new in it. The window is kept at a handful of
tokens: decoding everything again for each token would make a long answer cost the square of its
length.

Easy to get wrong: bytes that are no UTF-8. A decoder writes U+FFFD for them, and a U+FFFD at the
end may also be a character that the next token completes. Waiting until it goes away waits for ever
after a truly broken byte, so only the *last* U+FFFD is held back: an unfinished character always
shows as exactly one. The pieces, joined, equal decoding all tokens at once, whatever the tokens
are.

The idea of decoding a window is text-generation-inference's and vLLM's
(`vllm/transformers_utils/detokenizer_utils.py`).
"""

from collections.abc import Sequence
from typing import Protocol

_UNFINISHED = "\ufffd"
_MAX_TOKENS_OF_A_CHARACTER = 4
"""A character has at most four bytes in UTF-8, a token at least one."""


class TokenDecoder(Protocol):
    """The part of a tokenizer that is needed here."""

    def decode(self, token_ids: list[int], skip_special_tokens: bool = True) -> str: ...

    def is_silent(self, token_id: int, skip_special_tokens: bool) -> bool:
        """Whether the token never shows: a skipped special token, or an id that stands for
        nothing.
        """

    def is_byte_fallback(self, token_id: int) -> bool:
        """Whether the token is one raw byte, whose look depends on *all* such tokens next to it."""


class IncrementalDetokenizer:
    """Turns one sequence's tokens into text, as they come."""

    def __init__(self, decoder: TokenDecoder, *, skip_special_tokens: bool = True) -> None:
        self._decoder = decoder
        self._skip_special_tokens = skip_special_tokens
        self._window: list[int] = []
        """The tokens not fully shown yet, and before them the last ones that were, as context."""
        self._num_shown = 0
        """Characters of the window's text that have been handed out."""

    def fork(self) -> "IncrementalDetokenizer":
        """One for a sequence that has the same tokens so far."""
        other = IncrementalDetokenizer(self._decoder, skip_special_tokens=self._skip_special_tokens)
        other._window = list(self._window)
        other._num_shown = self._num_shown
        return other

    def append(self, token_id: int) -> str:
        """The text that becomes certain with this token; often one word, sometimes nothing."""
        if self._decoder.is_silent(token_id, self._skip_special_tokens):
            return ""  # and it must not become context either: it has no text to be context with
        self._window.append(token_id)
        return self._show_after(token_id)

    def extend(self, token_ids: Sequence[int]) -> str:
        """The text that is certain after several tokens. It costs one decoding, not one for each
        token.

        Joined with what comes later it is the same text as that of `append`.
        """
        visible = [
            one for one in token_ids if not self._decoder.is_silent(one, self._skip_special_tokens)
        ]
        self._window += visible
        return self._show_after(visible[-1]) if visible else ""

    def finish(self, token_ids: Sequence[int] = ()) -> str:
        """The sequence has ended, with `token_ids` as its last tokens: all text that has not been
        handed out yet.

        It has U+FFFD for a character that was never finished.
        """
        text = self._decode([*self._window, *token_ids])[self._num_shown :]
        self._window.clear()
        self._num_shown = 0
        return text

    def _show_after(self, last: int) -> str:
        """The part of the window's text that is certain and new, now that the token `last` has been
        added to it.
        """
        if self._decoder.is_byte_fallback(last):
            # Sentencepiece turns a run of raw bytes into text only as a whole: one bad byte changes
            # all of it.
            return ""
        text = self._decode(self._window)
        unfinished = text.endswith(_UNFINISHED)
        end = len(text) - unfinished
        shown = text[self._num_shown : end]
        self._num_shown = max(self._num_shown, end)
        self._shrink_window(unfinished)
        return shown

    def _shrink_window(self, unfinished: bool) -> None:
        # All shown: one token of context is enough. Something held back: keep all tokens that can
        # be part of it, too.
        keep = 1 + _MAX_TOKENS_OF_A_CHARACTER if unfinished else 1
        if len(self._window) > keep:
            del self._window[:-keep]
            self._num_shown = len(self._decode(self._window)) - unfinished

    def _decode(self, token_ids: list[int]) -> str:
        return self._decoder.decode(token_ids, skip_special_tokens=self._skip_special_tokens)
