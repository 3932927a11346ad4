"""The tables of docs/use/configuration.md: all options of engine, request and server, with rules.

Types, defaults and meanings are from the dataclasses. The rule of a field is taken from the error
for an impossible value. The page itself says which combinations are refused; their errors are ours.
"""

import dataclasses
import re
from ast import literal_eval
from enum import Enum
from typing import Any

from page_text import DOCS, code, field_docs, prose, sentence, table, type_name

from minivllm.config import EngineConfig, KVTransferConfig, SpeculativeConfig
from minivllm.errors import ConfigError, InvalidSamplingParamsError
from minivllm.kv_transfer.options import HostTierOptions, NixlOptions
from minivllm.sampling_params import SamplingParams
from minivllm.server.options import ServerOptions

_OF_ENGINE = EngineConfig, SpeculativeConfig, KVTransferConfig, HostTierOptions, NixlOptions
CLASSES = (*_OF_ENGINE, SamplingParams, ServerOptions)
_PROBES: tuple[object, ...] = (-1000.5, "?", -(10**30), 10**30, "")
"""A field with a rule of its own refuses at least one of these values."""


def fields_and_refusals(cls: type) -> str:
    fields = [_row(cls, field) for field in dataclasses.fields(cls)]
    page = (DOCS / "use/configuration.md").read_text(encoding="utf-8")
    region = page.split(f"<!-- made from the code: {cls.__name__} -->")[1].split("<!-- end")[0]
    refused = []
    for given in re.findall(r"^\| (`\w+=.*?`) \| ", region, re.MULTILINE):
        values = {name: literal_eval(value) for name, value in re.findall(r"`(\w+)=(.*?)`", given)}
        refused.append((given, prose(_refusal(cls, values))))
    return (
        f"{table(('Field', 'Type and default', 'Meaning'), fields)}\n"
        f"These combinations are refused:\n\n{table(('Given', 'Error'), refused)}"
    )


def _row(cls: type, field: dataclasses.Field) -> tuple[str, str, str]:
    meaning = field_docs(cls).get(field.name)
    if not meaning:
        raise LookupError(f"{cls.__name__}.{field.name} needs a docstring under it.")
    rules = {}  # an ordered set: several probes can break one rule
    for probe in _PROBES:
        # If a message starts with another field or has no "must", it is about several fields.
        rule = re.match(rf"{field.name} (must .*?)(; got |$)", _refusal(cls, {field.name: probe}))
        if rule and not rule[1].startswith(("must be one of", "must be True or False")):
            rules[sentence(rule[1])] = None
    return (
        code(field.name),
        f"{type_name(cls, field.name)}; {code(_default(field))}",
        prose(" ".join((sentence(meaning), *rules))),
    )


def _default(field: dataclasses.Field) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return repr(field.default_factory())
    if isinstance(field.default, Enum):
        return str(field.default)
    return "required" if field.default is dataclasses.MISSING else repr(field.default)


def _refusal(cls: type, given: dict[str, Any]) -> str:
    """The error that `cls` raises for these values; empty if it raises none of ours."""
    try:
        cls(**given)
    except (ConfigError, InvalidSamplingParamsError) as error:
        return str(error)
    except TypeError:  # a check failed on the probe's type: the field has no rule for it
        pass
    return ""
