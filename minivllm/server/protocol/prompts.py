"""Prompts of `/v1/completions`: a text, token ids, or a list of either.

For a list of half a million numbers, pydantic would try every alternative type and record each
failure. So this validator chooses the type by the first item.
"""

from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

MAX_PROMPTS = 64

_SCHEMA = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "minItems": 1,
            "maxItems": MAX_PROMPTS,
        },
        {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
        {
            "type": "array",
            "items": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
            "minItems": 1,
            "maxItems": MAX_PROMPTS,
        },
    ]
}


def _read(value: Any) -> list[str | list[int]]:
    """Convert to a list of prompts. Raises `ValueError` with a message for the client."""
    if isinstance(value, str):
        return [_text(value)]
    if not isinstance(value, list) or not value:
        raise ValueError(
            "prompt must not be empty: send a string, token ids, or a list of strings or of token"
            " id lists."
        )
    if _is_int(value[0]):
        return [_token_ids(value)]
    if len(value) > MAX_PROMPTS:
        raise ValueError(
            f"prompt is a list of {len(value)} prompts; send at most {MAX_PROMPTS} at once."
        )
    if isinstance(value[0], str):
        return [_text(prompt) for prompt in value]
    return [_token_ids(prompt) for prompt in value]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("prompt mixes strings with other values: send a list of strings only.")
    if not value:
        raise ValueError("prompt is an empty string: send at least one character.")
    return value


def _token_ids(value: Any) -> list[int]:
    if not isinstance(value, list) or not all(map(_is_int, value)):
        raise ValueError(
            "prompt must be a string, token ids, or a list of strings or of token id lists."
        )
    if not value:
        raise ValueError("prompt is an empty list of token ids: send at least one.")
    if min(value) < 0:
        raise ValueError(f"prompt contains {min(value)}, which is not a token id: use 0 or more.")
    return value


def _is_int(value: Any) -> bool:
    return type(value) is int


def _read_tokens(value: Any) -> list[int]:
    if not isinstance(value, list) or not all(map(_is_int, value)):
        raise ValueError("tokens must be a list of token ids.")
    if value and min(value) < 0:
        raise ValueError(f"tokens contains {min(value)}, which is not a token id: use 0 or more.")
    return value


TokenIds = Annotated[
    list[int],
    PlainValidator(_read_tokens),
    WithJsonSchema({"type": "array", "items": {"type": "integer", "minimum": 0}}),
]
"""A list of token ids; it may be empty."""
Prompts = Annotated[list[str | list[int]], PlainValidator(_read), WithJsonSchema(_SCHEMA)]
"""After validation, this is a list of prompts, even if the client sent a single prompt."""
