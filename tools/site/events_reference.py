"""Makes docs/inside/events.md: every kind of event with fields, source and a real example.

The page is made from the structs in `minivllm.events.types` and the strings under their fields. A
field without a description is an error.
"""

import inspect
from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType

import msgspec
from example_events import example_lines
from page_text import (
    GENERATED,
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

COMMON: Mapping[str, str] = MappingProxyType(
    {
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
)
"""Descriptions of fields that have none in the source."""

_HEAD = f"""# Events

{GENERATED} The structs are in {source_link("minivllm.events.types")}.

The engine emits each decision as an event, at the moment of the decision. The dashboard, \
recordings, `/events` of the server and the
metrics use only these events. A program that applies all of them in order \
has the engine's exact state; {source_link("minivllm.events.fold:Fold")} does this.

## A recording

A recording is a text file. Each line is a JSON object, and its field `ev` names its kind. \
The first line is `meta`. If the recording begins in the middle of a run, the second line is \
`log.state`, with the complete
state of the engine at that moment. Each further line is one event. `GET /events` \
of a server sends the same objects.

A reader skips kinds and fields that it does not know, because they are from a newer engine. A \
field with its default value is left out of the line.

### `meta`

"""
_SUBJECTS: tuple[tuple[str, ModuleType], ...] = (
    ("Requests", requests),
    ("Steps, tokens and the log", steps),
    ("Blocks", blocks),
    ("Drafts", drafts),
    ("Grammars", grammars),
    ("Why a token", explanations),
    ("Kernels", kernels),
)


def page() -> str:
    lines = example_lines()
    text = (
        _HEAD
        + f"{paragraphs(ev.LogHeader.__doc__)}\n\n"
        + _fields(ev.LogHeader)
        + _example(lines["meta"])
    )
    text += "\n### The envelope\n\nEvery event begins with the same three fields.\n\n" + _fields(
        ev.Event, own=False
    )
    text += (
        "\nNumbers have no gaps. If numbers are missing and no [`log.gap`](#loggap) explains it,"
        " a reader reports the damaged line. Times are in seconds. A real engine uses the"
        " monotonic clock, whose zero is arbitrary (`wall` and `mono` of `meta` relate it to the"
        " calendar). A recording that must be identical on every machine uses a virtual clock.\n"
    )
    text += "\n## All kinds\n\n" + table(
        ("Kind", "What happened"), (_summary(kind) for kind in ev.EVENT_KINDS)
    )
    for title, module in _SUBJECTS:
        kinds = [kind for kind in ev.EVENT_KINDS if kind.__module__ == module.__name__]
        text += f"\n## {title}\n"
        text += "".join(_section(kind, lines[_tag(kind)]) for kind in kinds)
        for part in _parts(module, kinds):
            text += (
                f"\n### {part.__name__}\n\n{paragraphs(part.__doc__)}\n\n{_fields(part, own=False)}"
            )
    return text


def _tag(kind: type[msgspec.Struct]) -> str:
    return kind.__struct_config__.tag


def _anchor(kind: type[ev.Event]) -> str:
    return "#" + _tag(kind).replace(".", "")


def _summary(kind: type[ev.Event]) -> tuple[str, str]:
    first = " ".join(inspect.cleandoc(kind.__doc__).split("\n\n")[0].split())
    return f"[{code(_tag(kind))}]({_anchor(kind)})", prose(first)


def _section(kind: type[ev.Event], line: str) -> str:
    where = source_link(kind.rule)
    return (
        f"\n### `{_tag(kind)}`\n\n{paragraphs(kind.__doc__)}\n\nEmitted by {where}. As a struct: "
        f"{source_link(f'{kind.__module__}:{kind.__name__}')}.\n\n{_fields(kind)}{_example(line)}"
    )


def _example(line: str) -> str:
    return f"\n```json\n{line}\n```\n"


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
