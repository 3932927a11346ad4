"""Find grammars without an end: every text that fits would go on for ever.

    start: "a" start            no way to end
    start: "a" start | "b"      ends with b
    {"properties": {"next": {"$ref": "#"}}, "required": ["next"]}      no way to end

llguidance does not look for that, and such a request would always run into `max_tokens`. A rule can
end if one of its alternatives uses only rules that can end. So begin with no such rule, and look
for more until none is found.

What this file cannot read counts as something that can end: llguidance judges the syntax.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_TERMINAL = re.compile(
    r"""(?P<skipped>//[^\n]*|^[ \t]*%\w+[^\n]*$)|"(?:\\.|[^"\\\n])*"i?|/(?:\\.|[^/\\\n])+/[a-z]*"""
    r"""|<[^>\n]*>""",
    re.MULTILINE,
)
_NESTED = re.compile(r"%\w+\s*\{")
_RULE = re.compile(r"^[ \t]*[?!]?([A-Za-z_]\w*)(?:\[[^\]]*\]|\.\d+|[ \t])*:", re.MULTILINE)
_WORD = re.compile(r"\w+|->\s*\w+|\{[^}]*\}|~\s*[\d.]+|[()|\[\]*?+]")
_ANY_NUMBER_OF_TIMES = re.compile(r"[?*]|\{\s*[0,]|~\s*0")


def lark_can_end(grammar: str) -> bool:
    """Whether the rule `start` of a Lark grammar can end."""
    plain = _TERMINAL.sub(lambda found: "" if found["skipped"] else " 1 ", grammar)
    plain = _without_nested(plain)
    rules = list(_RULE.finditer(plain))
    ends = [rule.start() for rule in rules[1:]] + [len(plain)]
    bodies = {
        rule[1]: _WORD.findall(plain[rule.end() : end])
        for rule, end in zip(rules, ends, strict=True)
    }
    return _can_end(
        "start", bodies, lambda body, unknown: _alternatives_can_end(body[::-1], unknown)
    )


def _without_nested(grammar: str) -> str:
    """Replace `%json {...}` and the like, which have no rules of this grammar."""
    while found := _NESTED.search(grammar):
        depth, end = 1, found.end()
        while depth and end < len(grammar):
            depth += {"{": 1, "}": -1}.get(grammar[end], 0)
            end += 1
        grammar = f"{grammar[: found.start()]} 1 {grammar[end:]}"
    return grammar


def _alternatives_can_end(words: list[str], unknown: Collection[str]) -> bool:
    """Read alternatives up to a closing bracket.

    words: in reverse order; what is read is removed
    """
    some, this = False, True
    while words and words[-1] not in ")]":
        word = words.pop()
        if word == "|":
            some, this = some or this, True
        else:
            this &= _item_can_end(word, words, unknown)
    return some or this


def _item_can_end(word: str, words: list[str], unknown: Collection[str]) -> bool:
    result = word not in unknown
    if word in "([":
        result = _alternatives_can_end(words, unknown) or word == "["  # optional
        if words:
            words.pop()
    if words and _ANY_NUMBER_OF_TIMES.match(words[-1]):
        return True
    return result


def schema_can_end(text: str) -> bool:
    """Whether a valid JSON schema allows a value that is not endless. It follows `$ref` inside."""
    root = json.loads(text)
    schemas = {"#": root}
    waiting = [root]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            target = one.get("$ref")
            if isinstance(target, str) and target not in schemas:
                schemas[target] = _look_up(root, target)
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return _can_end("#", schemas, _schema_can_end)


def _look_up(root: object, reference: str) -> object:
    """Return what a reference such as `#/$defs/node` stands for; True (any value) if unknown."""
    for part in reference.removeprefix("#").split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        root = root.get(part, True) if isinstance(root, dict) else True
    return root


def _schema_can_end(schema: object, unknown: Collection[str]) -> bool:
    if not isinstance(schema, dict):
        return True
    return (
        schema.get("$ref") not in unknown
        and all(_schema_can_end(one, unknown) for one in _required_parts(schema))
        and all(
            any(_schema_can_end(one, unknown) for one in schema[name])
            for name in ("anyOf", "oneOf")
            if name in schema
        )
    )


def _required_parts(schema: dict[str, Any]) -> Iterator[object]:
    properties = schema.get("properties", {})
    yield from (properties.get(name) for name in schema.get("required", ()))
    if schema.get("minItems", 0) > 0:
        first = schema.get("prefixItems") or [schema.get("items")]
        yield from first[: schema["minItems"]]
    yield from schema.get("allOf", ())


class _Unknown(set[str]):
    """The names that are not known to end. It notes which of them a check met."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(names)
        self.met: set[str] = set()

    def __contains__(self, name: object) -> bool:
        found = super().__contains__(name)
        if found:
            self.met.add(name)
        return found


def _can_end(start: str, bodies: dict[str, T], check: Callable[[T, Collection[str]], bool]) -> bool:
    """Whether `start` can end. check: whether a body can end, if the unknown names cannot.

    A body that cannot end yet is checked again when a name that its check met can end: in a chain
    of a thousand names, checking all bodies each time would take seconds.
    """
    unknown, waiting, ready = _Unknown(bodies), defaultdict[str, set[str]](set), list(bodies)
    while ready:
        name = ready.pop()
        unknown.met = set()
        if check(bodies[name], unknown):
            unknown.discard(name)
            ready += waiting.pop(name, ())
        else:
            for met in unknown.met:
                waiting[met].add(name)
    return start not in unknown
