"""Find grammars without an end: every text that fits would go on for ever.

    start: "a" start            no way to end
    start: "a" start | "b"      ends with b
    {"properties": {"next": {"$ref": "#"}}, "required": ["next"]}      no way to end

llguidance does not look for that, and such a request would always run into `max_tokens`. A rule can
end if one of its alternatives uses only rules that can end. So begin with no such rule, and look
for more until nothing changes.

What this file cannot read counts as something that can end: llguidance judges the syntax.
"""

import json
import re
from collections.abc import Callable, Collection
from typing import TypeVar

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
    needed = [] if schema.get("$ref") not in unknown else [False]
    properties, required = schema.get("properties", {}), schema.get("required", ())
    needed += [_schema_can_end(properties.get(name), unknown) for name in required]
    if schema.get("minItems", 0) > 0:
        first = schema.get("prefixItems") or [schema.get("items")]
        needed += [_schema_can_end(one, unknown) for one in first[: schema["minItems"]]]
    needed += [_schema_can_end(one, unknown) for one in schema.get("allOf", ())]
    for name in ("anyOf", "oneOf"):
        if name in schema:
            needed.append(any(_schema_can_end(one, unknown) for one in schema[name]))
    return all(needed)


def _can_end(start: str, bodies: dict[str, T], check: Callable[[T, Collection[str]], bool]) -> bool:
    """Whether `start` can end. check: whether a body can end, if the unknown names cannot."""
    unknown = set(bodies)
    while found := {name for name in unknown if check(bodies[name], unknown)}:
        unknown -= found
    return start not in unknown
