"""`Specification`: what a request asks for, in a form that can be compared, checked and compiled.

`check` refuses at the door what can never work: llguidance's first error becomes one sentence.

Source: vLLM `vllm/v1/structured_output/backend_guidance.py` (`serialize_guidance_grammar`,
`validate_guidance_grammar`).
"""

import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

import llguidance
from llguidance import LLMatcher, LLTokenizer

from minivllm.errors import InvalidSamplingParamsError
from minivllm.sampling_params import StructuredOutputsKind, StructuredOutputsParams
from minivllm.structured_output import MAX_LENGTH

T = TypeVar("T")

WHITE_SPACE = r"[ \n\r\t]{1,20}"
"""JSON's white space between two parts. vLLM allows any number, and a small model that begins to
write empty lines then fills `max_tokens` with them.
"""

LIMITS = {"verbose_errors": False, "initial_lexer_fuel": 200_000}
"""Limits of llguidance that differ from its defaults: no dump of the parser in an error, and a
fifth of the work for a regex that explodes, which is then refused in some tenths of a second.
"""

NO_FORCING = '%llguidance {"no_forcing": true}'
"""Appended to a grammar in Lark. In `start: "b" | "c" x` with `x: A x` and `A: /x+/`, only one byte
can follow `c`, again and again, and llguidance would collect these forced bytes for ever. The
price: a forced token of such a grammar is not drafted. JSON and regexes have no such loop.
"""

_STACK_SIZE = 256 << 20
"""In bytes: several times as much as any grammar needed. The system provides what is used."""


class Specification(NamedTuple):
    kind: StructuredOutputsKind
    text: str
    """The schema, the choices as a JSON list, the regex or the grammar."""
    whitespace_pattern: str | None = None
    disable_any_whitespace: bool = False

    @classmethod
    def of(cls, params: StructuredOutputsParams) -> "Specification":
        """Raises `InvalidSamplingParamsError` for a schema that is no JSON or too large."""
        value = getattr(params, params.kind)
        if params.kind == "json_object":
            value = {"type": "object"}
        if not isinstance(value, str):
            try:
                value = json.dumps(value)
            except (TypeError, ValueError, RecursionError):
                _refuse(params.kind, "is no JSON value: send what json.dumps can write")
        if len(value) > (limit := MAX_LENGTH[params.kind]):
            _refuse(params.kind, f"has {len(value):,} characters: send at most {limit:,}")
        return cls(params.kind, value, params.whitespace_pattern, params.disable_any_whitespace)

    def to_llguidance(self) -> str:
        """Return the grammar in the library's format. Raises `ValueError` if unreadable."""
        if self.kind in ("json", "json_object"):
            pattern = WHITE_SPACE if self.whitespace_pattern is None else self.whitespace_pattern
            whitespace = {
                "whitespace_flexible": not self.disable_any_whitespace,
                "whitespace_pattern": None if self.disable_any_whitespace else pattern,
            }
            return LLMatcher.grammar_from_json_schema(self.text, defaults=whitespace)
        if self.kind == "choice":
            # One terminal: of alternatives side by side, llguidance's parser takes 2,000.
            return f"start: CHOICE\nCHOICE: {' | '.join(map(json.dumps, json.loads(self.text)))}"
        grammar = llguidance.grammar_from(self.kind, self.text)
        return f"{grammar}\n{NO_FORCING}\n" if self.kind == "grammar" else grammar

    def compile(self, tokenizer: LLTokenizer) -> LLMatcher:
        """Return a matcher at its start. If a limit is exceeded, the matcher has an error."""
        return with_deep_stack(lambda: _new_matcher(tokenizer, self.to_llguidance()))


def with_deep_stack(work: Callable[[], T]) -> T:
    """Return the result of `work()` in a thread with a large stack.

    llguidance follows the references of a grammar by recursion. A schema of 100,000 characters can
    be a chain of a thousand `$ref`, which needs more than the usual 8 MiB: the process would end.
    """
    usual = threading.stack_size(_STACK_SIZE)
    try:
        with ThreadPoolExecutor(1, "minivllm-deep") as pool:
            return pool.submit(work).result()
    finally:
        threading.stack_size(usual)


def check(specification: Specification) -> None:
    """Raise `InvalidSamplingParamsError` if no output can fit, in at most about a second."""
    with_deep_stack(partial(_check, specification))


def _check(specification: Specification) -> None:
    kind = specification.kind
    try:
        grammar = specification.to_llguidance()
    except (ValueError, IndexError, RecursionError) as error:
        _refuse(kind, f"is not valid ({_first_reason(str(error))}): correct it")
    if specification.whitespace_pattern is not None:  # part of a schema, but a field of its own
        _compile(
            "whitespace_pattern", llguidance.grammar_from("regex", specification.whitespace_pattern)
        )
    matcher = _compile(kind, grammar)
    matcher.compute_bitmask()
    if matcher.is_error():
        _refuse(kind, "fits no text: correct it")
    _walk(matcher)
    if matcher.is_error():
        _refuse(kind, f"is too complex ({_first_reason(matcher.get_error())}): simplify it")


def _new_matcher(tokenizer: LLTokenizer, grammar: str) -> LLMatcher:
    limits = llguidance.LLParserLimits(**LIMITS)
    return LLMatcher(tokenizer, grammar, log_level=0, limits=limits)


def _compile(field: str, grammar: str) -> LLMatcher:
    """Return a matcher over 256 tokens, one for each byte, or refuse `field`.

    Compared with the model's tokens, this is quick, and it refuses the same.
    """
    matcher = _new_matcher(LLTokenizer("byte"), grammar)
    if matcher.is_error():
        _refuse(field, f"is not valid ({_first_reason(matcher.get_error())}): correct it")
    return matcher


def _walk(matcher: LLMatcher) -> None:
    """Read the first 8 bytes of a text that fits. Most grammars that explode do so here."""
    for _ in range(8):
        allowed = int.from_bytes(matcher.compute_bitmask(), "little")
        if matcher.is_error() or matcher.is_stopped():
            break
        lowest = (allowed & -allowed).bit_length() - 1
        matcher.consume_token(lowest)


def _refuse(field: str, what: str) -> None:
    raise InvalidSamplingParamsError(f"structured_outputs: {field} {what}.") from None


def _first_reason(message: str) -> str:
    """Return what matters of an error message of llguidance, which can have many lines."""
    if "oneOf constraints" in message:  # it wants proof that no value fits two of the schemas
        return "schemas in oneOf may overlap: use anyOf"
    found = re.search(r"^error: (.*)$", message, re.MULTILINE)  # a regex' own error
    reason = found[1] if found else re.sub(r"^at \d+\(\d+\): ", "", message)
    return reason.partition("\n")[0][:200].rstrip(" .:")
