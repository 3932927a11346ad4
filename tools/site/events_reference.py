"""The tables of docs/inside/events.md: every kind of event with fields, source and a real example.

They are made from the structs in `minivllm.events.types` and the strings under their fields. The
page's own table of common fields describes those that many kinds have. An example is a line of a
committed recording; no recording has the four kinds that only a fault or a client makes.
"""

import json
import re
from functools import cache

import msgspec
from page_text import (
    DOCS,
    code,
    field_docs,
    paragraphs,
    prose,
    sentence,
    source_link,
    table,
    type_name,
)

from minivllm.events import types as ev
from minivllm.sampling_params import SamplingParams

_SUBJECTS = {
    "Requests": ev.requests, "Steps, tokens and the log": ev.steps, "Blocks": ev.blocks,
    "The second memory": ev.transfers, "Drafts": ev.drafts, "Grammars": ev.grammars,
    "Why a token": ev.explanations, "Kernels": ev.kernels,
}  # fmt: skip


def meta() -> str:
    return f"{paragraphs(ev.LogHeader.__doc__)}\n\n{_fields(ev.LogHeader)}" + _example(ev.LogHeader)


def envelope() -> str:
    return _fields(ev.Event)


def kinds() -> str:
    rows = []
    for kind in ev.EVENT_KINDS:
        anchor = _tag(kind).replace(".", "")
        first = paragraphs(kind.__doc__).split("\n\n")[0]
        rows.append((f"[{code(_tag(kind))}](#{anchor})", first))
    text = table(("Kind", "What happened"), rows)
    for title, module in _SUBJECTS.items():
        kinds = [kind for kind in ev.EVENT_KINDS if kind.__module__ == module.__name__]
        text += f"\n## {title}\n" + "".join(map(_section, kinds))
        for part in vars(module).values():  # types of events' fields
            is_struct = isinstance(part, type) and issubclass(part, msgspec.Struct)
            if is_struct and part.__module__ == module.__name__ and part not in kinds:
                text += f"\n### {part.__name__}\n\n{paragraphs(part.__doc__)}\n\n{_fields(part)}"
    return text


def _tag(kind: type[msgspec.Struct]) -> str:
    return kind.__struct_config__.tag


def _section(kind: type[ev.Event]) -> str:
    struct = source_link(f"{kind.__module__}:{kind.__name__}")
    text = f"\n### `{_tag(kind)}`\n\n{paragraphs(kind.__doc__)}\n\nEmitted by "
    text += f"{source_link(kind.rule)}. As a struct: {struct}.\n\n"
    return text + _fields(kind, left_out=ev.Event.__struct_fields__) + _example(kind)


def _example(kind: type[msgspec.Struct]) -> str:
    line = _examples().get(_tag(kind))
    return f"\n```json\n{line}\n```\n" if line else ""


@cache
def _examples() -> dict[str, str]:
    """The best line of each kind: with most fields (defaults are left out), then the shortest."""
    found: dict[str, tuple[int, int, str]] = {}
    for file in sorted((DOCS / "assets/recordings").rglob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            worth = len(event), -len(line)
            if event["ev"] not in found or worth > found[event["ev"]][:2]:
                found[event["ev"]] = (*worth, line)
    return {tag: line for tag, (_, _, line) in found.items()}


def _fields(struct: type[msgspec.Struct], left_out: tuple[str, ...] = ()) -> str:
    # The fields of `RequestSampling` are described in `SamplingParams`.
    docs = field_docs(SamplingParams if struct is ev.RequestSampling else struct)
    rows = []
    for field in msgspec.structs.fields(struct):
        if field.name in left_out:
            continue
        meaning = docs.get(field.name) or _common_fields().get(field.name)
        if meaning is None:
            raise LookupError(f"{struct.__name__}.{field.name} needs a docstring under it.")
        if not field.required:
            is_value = field.default is not msgspec.NODEFAULT
            default = msgspec.json.encode(field.default if is_value else field.default_factory())
            meaning = f"{sentence(meaning)} If left out: `{default.decode()}`."
        rows.append((code(field.name), type_name(struct, field.name), prose(meaning)))
    return table(("Field", "Type", "Meaning"), rows)


@cache
def _common_fields() -> dict[str, str]:
    page = (DOCS / "inside/events.md").read_text(encoding="utf-8")
    written = page.split("### Common fields\n")[1].split("\n#")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", written, re.MULTILINE))
