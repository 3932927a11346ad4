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
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError

from minivllm.errors import InvalidRequestError, UnsupportedModelError

ChatMessage = Mapping[str, Any]
"""At least `role`, nearly always `content`."""


MAX_SECONDS = 5.0
"""A thousand messages take some hundredths of one."""
MAX_CHARACTERS = 1 << 22
"""Four times what a client of the server can send."""

_END = "end of the time"
"""Among what a template is given; no name that it could write."""


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
        environment = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols])
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = strftime_now
        try:
            self._template = environment.compile_with_clock(source)
        except jinja2.TemplateSyntaxError as error:
            raise UnsupportedModelError(
                f"This model's chat template cannot be used ({error}): use `generate`."
            ) from error
        self._special_tokens = special_tokens

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """The conversation as text, ready for the assistant's answer."""
        plain = [_plain_message(message) for message in messages]
        try:
            pieces = self._template.generate(
                messages=plain,
                tools=None,
                documents=None,
                add_generation_prompt=True,
                **self._special_tokens,
                **{_END: time.monotonic() + MAX_SECONDS},
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


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, in which whatever goes round looks at the clock.

    Nothing can end a thread from outside, and tracing its lines (`sys.settrace`) made a long chat take 17 times as long and pushed
    debuggers aside. But a template goes round in loops and macros only, and each turn of one begins here.
    """

    # 9 ** 9 ** 9 is one turn and takes for ever. No chat needs powers.
    intercepted_binops = frozenset({"**"})

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> NoReturn:
        raise SecurityError(f"a chat template may not use {operator}")

    def compile_with_clock(self, source: str) -> jinja2.Template:
        """Raises `jinja2.TemplateSyntaxError`."""
        tree = self.parse(source)
        for node in tree.find_all((nodes.For, nodes.Macro)):
            look = nodes.Call(nodes.EnvironmentAttribute("look_at_clock"), [], [], None, None)
            node.body.insert(0, nodes.ExprStmt(look, lineno=node.lineno))
        return self.template_class.from_code(self, self.compile(tree), self.make_globals(None))

    @staticmethod
    @jinja2.pass_context
    def look_at_clock(context: Context) -> None:
        # The parent is what the template was given: what it sets itself, under whatever name, stands elsewhere.
        if time.monotonic() > context.parent[_END]:
            raise TimeoutError(f"a chat template took more than {MAX_SECONDS:g} seconds")


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
