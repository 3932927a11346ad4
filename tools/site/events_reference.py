"""The tables of docs/inside/events.md: every kind of event with fields, source and a real example.

They are made from the structs in `minivllm.events.types` and the strings under their fields. A
field without a description is an error. An example is a line of a committed recording; no recording
has the four kinds that only a fault or a client makes.
"""

import inspect
import json
from collections.abc import Iterable
from types import ModuleType

import msgspec
from page_text import (
    ROOT,
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
from minivllm.events.types import blocks, drafts, explanations, grammars, kernels, requests, steps
from minivllm.sampling_params import SamplingParams

COMMON = {
    "request_id": "Name of the request.",
    "seq_id": "The sequence, named after its request: `ada.0` is the first sequence of `ada`.",
    "block_id": "The block, from 0 to `num_blocks` - 1.",
    "logical": "Entry of the sequence's block table, from 0.",
    "slot": "Slot in the batch, from 0 to `max_num_seqs` - 1.",
    "position": "Position in the queue named above; 0 is first.",
    "num_cached_tokens": "Tokens whose keys and values were found in the prefix cache.",
    "num_computed_tokens": "Tokens that need no computation: the first chunk starts here.",
    "token_id": "The token's id in the model's vocabulary.",
    "num_blocks": "Blocks of the KV cache.",
    "block_size": "Tokens per block.",
    "max_num_seqs": "Slots of the batch.",
    "max_num_batched_tokens": "The token budget of a step.",
    "max_model_len": "Maximum number of tokens of one sequence, prompt and output together.",
    "scheduling_policy": "`fcfs` or `priority`.",
    "enable_prefix_caching": "Whether sequences can share cached blocks, found by hash.",
    "schema": "The kind of file.",
    "version": (
        "Version of the schema. It increases when an old reader would misread a new log, but"
        " not for new kinds and fields."
    ),
    "model": "The model that the engine loaded.",
    "clock": (
        "The clock of `t`: the system's, or a virtual clock that advances by 0.01 s per step"
        " on every machine."
    ),
    "mono": "Time on the engine's clock when the log began, in seconds.",
    "kernel": "Name of the Triton kernel.",
}
"""Descriptions of fields that have none in the source."""

_SUBJECTS: tuple[tuple[str, ModuleType], ...] = (
    ("Requests", requests),
    ("Steps, tokens and the log", steps),
    ("Blocks", blocks),
    ("Drafts", drafts),
    ("Grammars", grammars),
    ("Why a token", explanations),
    ("Kernels", kernels),
)


def meta() -> str:
    return f"{paragraphs(ev.LogHeader.__doc__)}\n\n{_fields(ev.LogHeader)}" + _example(
        _examples()["meta"]
    )


def envelope() -> str:
    return _fields(ev.Event, own=False)


def kinds() -> str:
    examples = _examples()
    text = table(("Kind", "What happened"), (_summary(kind) for kind in ev.EVENT_KINDS))
    for title, module in _SUBJECTS:
        kinds = [kind for kind in ev.EVENT_KINDS if kind.__module__ == module.__name__]
        text += f"\n## {title}\n" + "".join(_section(kind, examples) for kind in kinds)
        for part in _parts(module, kinds):
            fields = _fields(part, own=False)
            text += f"\n### {part.__name__}\n\n{paragraphs(part.__doc__)}\n\n{fields}"
    return text


def _tag(kind: type[msgspec.Struct]) -> str:
    return kind.__struct_config__.tag


def _anchor(kind: type[ev.Event]) -> str:
    return "#" + _tag(kind).replace(".", "")


def _summary(kind: type[ev.Event]) -> tuple[str, str]:
    first = " ".join(inspect.cleandoc(kind.__doc__).split("\n\n")[0].split())
    return f"[{code(_tag(kind))}]({_anchor(kind)})", prose(first)


def _section(kind: type[ev.Event], examples: dict[str, str]) -> str:
    struct = source_link(f"{kind.__module__}:{kind.__name__}")
    text = f"\n### `{_tag(kind)}`\n\n{paragraphs(kind.__doc__)}\n\nEmitted by "
    text += f"{source_link(kind.rule)}. As a struct: {struct}.\n\n{_fields(kind)}"
    return text + _example(examples.get(_tag(kind)))


def _example(line: str | None) -> str:
    return f"\n```json\n{line}\n```\n" if line else ""


def _examples() -> dict[str, str]:
    """The best line of each kind: with most fields (defaults are left out), then the shortest."""
    found: dict[str, tuple[tuple[int, int], str]] = {}
    for file in sorted((ROOT / "docs/assets/recordings").rglob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            worth = len(event), -len(line)
            if event["ev"] not in found or worth > found[event["ev"]][0]:
                found[event["ev"]] = worth, line
    return {tag: line for tag, (_, line) in found.items()}


def _fields(struct: type[msgspec.Struct], own: bool = True) -> str:
    """Return a table of the fields. own: leave out the envelope's fields of an event"""
    envelope_fields = ev.Event.__struct_fields__ if own and issubclass(struct, ev.Event) else ()
    shown = [one for one in msgspec.structs.fields(struct) if one.name not in envelope_fields]
    # The fields of `RequestSampling` are described in `SamplingParams`.
    docs = field_docs(SamplingParams if struct is ev.RequestSampling else struct)
    return table(("Field", "Type", "Meaning"), (_row(struct, one, docs) for one in shown))


def _row(
    struct: type[msgspec.Struct], field: msgspec.structs.FieldInfo, docs: dict[str, str]
) -> tuple[str, str, str]:
    meaning = docs.get(field.name) or COMMON.get(field.name)
    if meaning is None:
        raise LookupError(
            f"{struct.__name__}.{field.name} has no description: write a docstring under it."
        )
    if not field.required:
        default = (
            field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        )
        meaning = f"{sentence(meaning)} If left out: `{_as_json(default)}`."
    return code(field.name), type_name(struct, field.name), prose(meaning)


def _as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _parts(module: ModuleType, kinds: Iterable[type[ev.Event]]) -> list[type[msgspec.Struct]]:
    """The structs of a module that are not events, but types of events' fields."""
    structs = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, msgspec.Struct)
    ]
    return [one for one in structs if one.__module__ == module.__name__ and one not in set(kinds)]
