"""`ChatTemplate`: turns a list of messages into the text that the model was trained to continue.

The result is the same as from `apply_chat_template(add_generation_prompt=True)` of `transformers`,
whose imports take seconds. A template is a Jinja program of a stranger: it runs in Jinja's
immutable sandbox, as in transformers and vLLM, and may write a limited text.

Source: transformers 5, `utils/chat_template_utils.py`.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from minivllm.errors import InvalidRequestError

MAX_CHARACTERS = 1 << 22
"""Longest text that a template may write: by default, four times what a client can send."""


class ChatTemplate:
    """A compiled template. Several threads can render at once."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        """Raises `InvalidRequestError` if the template, which knows `special_tokens`, is broken."""
        # White space is part of the format: one newline too many or too few makes answers worse.
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
        self._special_tokens = special_tokens
        try:
            self._template = environment.from_string(source)
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise InvalidRequestError(
                f"This model's chat template cannot be used ({reason:.200}): use `generate` with a"
                " plain prompt."
            ) from error

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> str:
        """Render the prompt for the assistant's next message. Raises `InvalidRequestError`."""
        variables = {"tools": tools or None, "documents": None, "add_generation_prompt": True}
        variables["messages"] = [_plain_message(message) for message in messages]
        variables |= self._special_tokens
        pieces, num_characters = [], 0
        try:
            for piece in self._template.generate(variables):
                pieces.append(piece)
                num_characters += len(piece)
                if num_characters > MAX_CHARACTERS:
                    raise OverflowError(f"the template wrote over {MAX_CHARACTERS} characters")
        # The template's own message is for the server's operator, not for clients.
        except Exception as error:
            raise InvalidRequestError(
                "The model's chat template does not accept these messages: change their roles or"
                " their order, or send less."
            ) from error
        return "".join(pieces)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, indent: Any = None, **options: Any) -> str:
    # Jinja's own filter escapes characters for HTML, but models are not trained on such text.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


class _GenerationTag(Extension):
    """Ignores `{% generation %}...{% endgeneration %}`, which marks answers for training."""

    tags = {"generation"}  # noqa: RUF012  (Jinja reads it from the class)

    def parse(self, parser: Parser) -> nodes.Scope:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _plain_message(message: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise InvalidRequestError(
            f"A chat message must be a dict with a role and content; got {message!r:.100}."
        )
    # Clients send nulls, such as `"content": null`; a template would print them as "None".
    return {key: value for key, value in message.items() if value is not None}
