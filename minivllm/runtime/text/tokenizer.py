"""`Tokenizer`: text to token ids and back, chat messages to token ids, and the end tokens.

This is a thin layer over the `tokenizers` library. `transformers` returns the same ids, but
importing it takes longer than loading a small model.

A chat model can have several end tokens, in three places: `generation_config.json` (one id or a
list), `config.json` (older models), and the tokenizer's own `eos_token`. After a missed end token,
the model would go on and write both sides of the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from minivllm import runtime
from minivllm.errors import InvalidRequestError, ModelIntegrityError
from minivllm.runtime.checkpoint.checkpoint import read_json_object_if_there
from minivllm.runtime.text.plain_text import ControlTokens

ChatMessage = Mapping[str, Any]
"""A dictionary with the key `role`, and nearly always `content`."""
ToolDefinition = Mapping[str, Any]
"""A dictionary `{"type": "function", "function": {"name", "description", "parameters"}}`."""

_TOOLS_IN_CODE = re.compile(r"\{[{%][^}]*\btools\b")

_NAMED_TOKENS = [f"{kind}_token" for kind in ["bos", "eos", "unk", "sep", "pad", "cls", "mask"]]
_TEXTS_AT_ONCE = 512
"""Each takes a kilobyte while it is encoded, and `plain_text` can cut a message into 100,000."""


class Tokenizer:
    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        named_tokens: dict[str, str],
        eos_token_ids: frozenset[int],
        chat_template: str | None,
        num_embeddings: int | None = None,
    ) -> None:
        """num_embeddings: rows of the model's embedding table, if known; larger ids are ignored"""
        backend.no_truncation()
        backend.no_padding()
        added = backend.get_added_tokens_decoder().values()
        ordinary = set(named_tokens.values()) - {t.content for t in added if t.special}
        # This adds no tokens; it marks these tokens as special, in case the file does not.
        known = [token for token in sorted(ordinary) if backend.token_to_id(token) is not None]
        backend.add_special_tokens(known)
        self._backend = backend
        self.named_tokens, self._template_source = named_tokens, chat_template
        self._control_tokens = ControlTokens(backend)
        all_added = backend.get_added_tokens_decoder()
        self._special_ids = frozenset(id_ for id_, token in all_added.items() if token.special)
        self._byte_fallback_ids = _byte_fallback_ids(backend)
        limit = float("inf") if num_embeddings is None else num_embeddings
        self.eos_token_ids = frozenset(id_ for id_ in eos_token_ids if id_ < limit)
        """Each of these ends an answer."""
        self.vocab_size: int = min(backend.get_vocab_size(with_added_tokens=True), limit)
        """Number of tokens with a text. The embedding table can have more rows (padding)."""

    def has_vocabulary_of(self, other: Tokenizer) -> bool:
        """Whether each token id has the same text in both."""
        mine, theirs = (side._backend.get_vocab(with_added_tokens=True) for side in (self, other))
        return mine == theirs

    def to_json(self) -> str:
        """Return the content of `tokenizer.json`, for libraries that need the vocabulary."""
        return self._backend.to_str()

    @classmethod
    def from_directory(cls, directory: Path) -> Tokenizer:
        """Read the tokenizer's files. Raises `ModelIntegrityError` if a file is damaged."""
        path = directory / "tokenizer.json"
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except BaseException as error:  # the library raises plain Exception
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            raise ModelIntegrityError(
                f"{path} cannot be read ({str(error)!r:.100}): download the model again."
            ) from error
        config = read_json_object_if_there(directory / "tokenizer_config.json")
        texts = {name: _token_text(config.get(name)) for name in _NAMED_TOKENS}
        named_tokens = {name: text for name, text in texts.items() if text is not None}
        generation_config = read_json_object_if_there(directory / "generation_config.json")
        model_config = read_json_object_if_there(directory / "config.json")
        eos = _ids(generation_config.get("eos_token_id", model_config.get("eos_token_id")))
        if (own := backend.token_to_id(named_tokens.get("eos_token", ""))) is not None:
            eos |= {own}
        return cls(
            backend,
            named_tokens=named_tokens,
            eos_token_ids=frozenset(eos),
            chat_template=_read_chat_template(directory, config),
            num_embeddings=rows if type(rows := model_config.get("vocab_size")) is int else None,
        )

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Return the token ids of a prompt, with the model's special tokens (often a BOS).

        The text of a control token in a raw prompt becomes the control token, as in vLLM.
        """
        return self._encode([text], add_special_tokens)[0]

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of all `token_ids` that have one. Invalid UTF-8 becomes U+FFFD."""
        try:
            return self._backend.decode(token_ids, skip_special_tokens=skip_special_tokens)
        except BaseException as error:
            if not is_panic(error):
                raise
            raise RuntimeError("The tokenizer panicked.") from error

    def apply_chat_template(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition] = ()
    ) -> list[int]:
        """Return the prompt for the assistant's next message. Raises `InvalidRequestError`.

        Only the template makes control tokens: inside a message, their texts are ordinary text.
        """
        if not messages:
            raise InvalidRequestError("The conversation is empty: send at least one message.")
        given, plain_ids = self._control_tokens.hide([*messages, *tools])
        rendered = self._render(given[: len(messages)], given[len(messages) :])
        # Every second piece is a private character.
        pieces = re.split(f"([{''.join(plain_ids)}])", rendered) if plain_ids else [rendered]
        # The template itself writes the BOS token, if the model has one.
        token_ids, *encoded = self._encode(pieces[::2], add_special_tokens=False)
        for mark, ids in zip(pieces[1::2], encoded, strict=True):
            token_ids += plain_ids[mark] + ids
        return token_ids

    @property
    def has_chat_template(self) -> bool:
        return self._template_source is not None

    @property
    def template_knows_tools(self) -> bool:
        """Whether the chat template writes tools into the prompt."""
        return bool(_TOOLS_IN_CODE.search(self._template_source or ""))

    def piece(self, token_id: int) -> str:
        """Return the text that one token adds inside a text, with its spaces.

        A special token has its name. A byte of an incomplete character is `<0xE2>`. An id without a
        text, in the padding of an embedding table, is empty.
        """
        token = self._backend.id_to_token(token_id)
        if token is None or token_id in self._special_ids:
            return token or ""
        # Sentencepiece drops a space at the start of a text: take the second of two equal tokens.
        once, twice = (self.decode([token_id] * number, False) for number in (1, 2))
        piece = twice[len(once) :]
        return _with_bytes(token) if "\ufffd" in piece else piece

    def is_silent(self, token_id: int, skip_special_tokens: bool) -> bool:
        """Whether the token never appears in a text (see `minivllm.engine.output_processor`)."""
        if skip_special_tokens and token_id in self._special_ids:
            return True
        return self._backend.id_to_token(token_id) is None

    def is_byte_fallback(self, token_id: int) -> bool:
        """Whether the token is a raw byte of a SentencePiece vocabulary."""
        return token_id in self._byte_fallback_ids

    @cached_property
    def _render(self) -> Callable[[Sequence[ChatMessage], Sequence[ToolDefinition]], str]:
        if self._template_source is None:
            raise InvalidRequestError(
                "This model has no chat template: use `generate` with a plain prompt."
            )
        return runtime.ChatTemplate(self._template_source, self.named_tokens).render

    def _encode(self, texts: list[str], add_special_tokens: bool) -> list[list[int]]:
        token_ids: list[list[int]] = []
        try:
            for start in range(0, len(texts), _TEXTS_AT_ONCE):
                # `encode` holds the GIL, for half a second on a long text; the batch functions
                # release it. `encode_batch_fast` omits texts and positions, and so needs a tenth of
                # the time and memory.
                some = texts[start : start + _TEXTS_AT_ONCE]
                batch = self._backend.encode_batch_fast(some, add_special_tokens=add_special_tokens)
                token_ids += [encoding.ids for encoding in batch]
        except TypeError:
            raise InvalidRequestError(
                "The prompt must be a string of valid Unicode: it is not a string, or it has half"
                " of a surrogate pair."
            ) from None
        except BaseException as error:
            if not is_panic(error):
                raise
            raise InvalidRequestError(
                "The model's tokenizer cannot split this text into tokens: send another text."
            ) from None
        return token_ids


def is_panic(error: BaseException) -> bool:
    """Whether the library's Rust code panicked, as when a regex gives up. It is no `Exception`."""
    return type(error).__name__ == "PanicException"


def _token_text(value: Any) -> str | None:
    """Return the text of a token in tokenizer_config.json: a string, or an object with details."""
    text = value.get("content") if isinstance(value, dict) else value
    # JSON can hold half of a surrogate pair, which is not valid text.
    is_text = isinstance(text, str) and text == text.encode("utf-8", "ignore").decode()
    return text if is_text else None


def _ids(value: Any) -> set[int]:
    values = value if isinstance(value, list) else [value]
    return {id_ for id_ in values if type(id_) is int and id_ >= 0}


def _with_bytes(token: str) -> str:
    """Return the text of a token, with `<0xE2>` for each byte that is not valid UTF-8.

    A byte-level vocabulary writes each byte as one printable character. Sentencepiece writes a raw
    byte as `<0xE2>` already.
    """
    # Characters 256, 257, ... stand for the bytes that are not printable in Latin-1.
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    byte_of = {chr(byte): byte for byte in plain}
    byte_of |= {chr(256 + number): byte for number, byte in enumerate(others)}
    if token.startswith("<0x") or not set(token) <= set(byte_of):
        return token
    text = bytes(byte_of[char] for char in token).decode("utf-8", "surrogateescape")
    return "".join(f"<0x{ord(c) - 0xDC00:02X}>" if "\ud800" <= c <= "\udfff" else c for c in text)


def _byte_fallback_ids(backend: tokenizers.Tokenizer) -> frozenset[int]:
    if backend.decoder is None or backend.decoder.decode(["<0x41>"]) != "A":
        return frozenset()
    ids = (backend.token_to_id(f"<0x{byte:02X}>") for byte in range(256))
    return frozenset(id_ for id_ in ids if id_ is not None)


def _read_chat_template(directory: Path, tokenizer_config: dict[str, Any]) -> str | None:
    """Read the template from its own file (since 2025) or from the config."""
    file = directory / "chat_template.jinja"
    if file.is_file():
        try:
            return file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ModelIntegrityError(
                f"{file} is damaged (it is not UTF-8): download the model again."
            ) from None
    entry = tokenizer_config.get("chat_template")
    if isinstance(entry, list):
        named = {item.get("name"): item for item in entry if isinstance(item, dict)}
        entry = named.get("default", {}).get("template")
    return entry if isinstance(entry, str) else None
