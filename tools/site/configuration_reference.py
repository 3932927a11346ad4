"""The tables of docs/use/configuration.md: all options of engine, request and server, with rules.

Types, defaults and meanings are from the dataclasses. The rule of a field is taken from the error
message for an impossible value, and rules about several fields from the errors for the combinations
in `TOGETHER`.
"""

import dataclasses
import re
from collections.abc import Iterable
from enum import Enum
from typing import Any

from page_text import code, field_docs, prose, sentence, table, type_name

from minivllm.config import EngineConfig, SpeculativeConfig
from minivllm.errors import ConfigError, InvalidSamplingParamsError
from minivllm.sampling_params import SamplingParams
from minivllm.server.options import ServerOptions

_PROBES: tuple[object, ...] = (-1000.5, "?", -(10**30), 10**30, "")
"""A field with a rule of its own refuses at least one of these values."""
TOGETHER: dict[type, tuple[dict[str, Any], ...]] = {
    EngineConfig: (
        {"kv_cache_allocator": "contiguous", "enable_prefix_caching": True},
        {"batch_size": 4},
        {"enable_chunked_prefill": False, "max_num_batched_tokens": 512, "max_model_len": 2048},
        {"custom_ops": ["all", "rms_norm"]},
        {
            "block_size": 8,
            "speculative_config": {"method": "ngram", "num_speculative_tokens": 9},
        },
    ),
    SpeculativeConfig: (
        {"method": "eagle", "num_speculative_tokens": 4},
        {"method": "ngram", "num_speculative_tokens": 0},
        {"method": "ngram", "num_speculative_tokens": 4, "model": "house"},
        {"method": "draft_model", "num_speculative_tokens": 4},
        {
            "method": "ngram", "num_speculative_tokens": 4,
            "prompt_lookup_max": 2, "prompt_lookup_min": 3,
        },
    ),
    SamplingParams: (
        {"n": 4, "best_of": 2},
        {"max_tokens": 4, "min_tokens": 8},
        {"length_penalty": 2.0},
        {"use_beam_search": True},
        {"n": 4, "beam_width": 2},
        {"best_of": 4, "beam_width": 4},
        {"beam_width": 4, "top_p": 0.5},
    ),
    ServerOptions: ({"host": "0.0.0.0"}, {"api_key": ("",)}),
}  # fmt: skip
"""Combinations of values that are refused, although each value alone could be valid."""


def fields_and_refusals(cls: type) -> str:
    text = table(("Field", "Type and default", "Meaning"), _rows(cls))
    text += "\nThese combinations are refused:\n\n"
    return text + table(
        ("Given", "Error"),
        ((_call(given), prose(str(refusal(cls, given)))) for given in TOGETHER[cls]),
    )


def _rows(cls: type) -> Iterable[tuple[str, ...]]:
    docs = field_docs(cls)
    for field in dataclasses.fields(cls):
        if not docs[field.name]:
            raise LookupError(
                f"{cls.__name__}.{field.name} has no description: write a docstring under it."
            )
        meaning = " ".join(filter(None, (sentence(docs[field.name]), _rule(cls, field.name))))
        yield (
            code(field.name),
            f"{type_name(cls, field.name)}; {code(_default(field))}",
            prose(meaning),
        )


def _default(field: dataclasses.Field) -> object:
    if field.default is field.default_factory is dataclasses.MISSING:
        return "required"
    value = (
        field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    )
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    return repr(value)


def _rule(cls: type, name: str) -> str:
    """A field's rules in the words of the errors; empty if the type is the only rule."""
    rules: dict[str, None] = {}
    for probe in _PROBES:
        # If a message starts with another field or has no "must", it is about several fields.
        rule = re.match(rf"{name} (must .*?)(; got |$)", str(refusal(cls, {name: probe})))
        if rule and not rule[1].startswith(("must be one of", "must be True or False")):
            rules[sentence(rule[1])] = None
    return " ".join(rules)


def refusal(cls: type, given: dict[str, Any]) -> ConfigError | InvalidSamplingParamsError | None:
    """Return the error that `cls` raises for these values; None if it raises no error."""
    try:
        cls(**given)
    except (ConfigError, InvalidSamplingParamsError) as error:
        return error
    except TypeError:  # a check failed on the probe's type: the field has no rule for it
        pass
    return None


def _call(given: dict[str, Any]) -> str:
    return ", ".join(code(f"{name}={value!r}") for name, value in given.items())
