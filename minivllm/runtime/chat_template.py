"""A model's chat template: messages in, the text that the model was trained to continue out.

Gives what `transformers`' `apply_chat_template(add_generation_prompt=True)` gives, without importing it (seconds,
and its tokenizer classes with it). A template is a Jinja program, and it comes with the model: from a stranger.
It runs in Jinja's sandbox, sees plain data only, has bounds on its time and on its text, and whatever it raises becomes a
refused request.

Easy to get wrong: white space. `trim_blocks` and `lstrip_blocks` are part of the format, and one newline more or
less makes a model noticeably worse.

Source: transformers 5, `utils/chat_template_utils.py`.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from minivllm.errors import InvalidRequestError, UnsupportedModelError

ChatMessage = Mapping[str, Any]
"""At least `role`, nearly always `content`."""


MAX_SECONDS = 5.0
"""A thousand messages take some hundredths of one."""
MAX_CHARACTERS = 1 << 22
"""Four times what a client of the server can send."""


class ChatTemplate:
    """One compiled template."""

    def __init__(
        self,
        source: str,
        special_tokens: Mapping[str, str],
        *,
        strftime_now: Callable[[str], str] = lambda pattern: datetime.now().strftime(pattern),
    ) -> None:
        """`special_tokens`: what the template may refer to, such as `bos_token`.

        Some templates write today's date into the prompt: `strftime_now` makes them reproducible.
        """
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = strftime_now
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise UnsupportedModelError(
                f"This model's chat template cannot be used ({error}): use `generate`."
            ) from error
        self._special_tokens = special_tokens

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """The conversation as text, ready for the assistant's answer."""
        plain = [_plain_message(message) for message in messages]
        try:
            with _time_limit(MAX_SECONDS):
                pieces = self._template.generate(
                    messages=plain,
                    tools=None,
                    documents=None,
                    add_generation_prompt=True,
                    **self._special_tokens,
                )
                return _join(pieces)
        except Exception as error:  # a template can raise anything, and what it says is not for strangers
            raise InvalidRequestError(
                "The model's chat template does not accept these messages: change their roles or their order, or send less."
            ) from error


def _join(pieces: Iterable[str]) -> str:
    taken, length = [], 0
    for piece in pieces:
        taken.append(piece)
        length += len(piece)
        if length > MAX_CHARACTERS:
            raise OverflowError(f"a chat template wrote more than {MAX_CHARACTERS} characters")
    return "".join(taken)


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Have the Python code below fail when its time is over.

    A thread cannot be ended from outside, and a template that loops need not write anything. So its lines are traced.
    """
    end = time.monotonic() + seconds

    def look_at_clock(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        if time.monotonic() > end:
            raise TimeoutError(f"a chat template took more than {seconds:g} seconds")
        return look_at_clock

    before = sys.gettrace()
    sys.settrace(look_at_clock)
    try:
        yield
    finally:
        sys.settrace(before)


def _plain_message(message: ChatMessage) -> dict[str, Any]:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise InvalidRequestError(f"A chat message must be a dict with a role and content; got {message!r:.100}.")
    # Clients send `"content": null` and the like, and templates would print "None".
    return {key: value for key, value in message.items() if value is not None}


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    # Jinja's own filter escapes for HTML, which no model was trained on.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


class _GenerationTag(Extension):
    """`{% generation %}...{% endgeneration %}` marks an answer for training; here it is just its contents."""

    tags = {"generation"}  # noqa: RUF012  (Jinja reads it from the class)

    def parse(self, parser: Parser) -> nodes.Scope:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)
