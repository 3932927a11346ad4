"""Command-line options made from the fields of `EngineConfig`, `SamplingParams`, `ServerOptions`.

The field `max_num_seqs` becomes `--max-num-seqs`, as in vLLM, with the field's type, choices and
default. Its help is the text below the field in the source. An option that is not given sets no
attribute, so that a command can have its own defaults (for example, a demo's scenario).
"""

import argparse
import ast
import dataclasses
import inspect
from collections.abc import Mapping, Set
from contextlib import suppress
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from minivllm.cli import Parser, add_option
from minivllm.config import EngineConfig, NestedConfig
from minivllm.errors import ConfigError
from minivllm.sampling_params import SamplingParams

NOT_OPTIONS = frozenset({
    "seed", "logit_bias", "prompt_logprobs", "skip_special_tokens", "structured_outputs",
    "output_kind",
})  # fmt: skip
"""Fields of `SamplingParams` without an option. `--seed` is an option of the engine, and `generate`
has options for `structured_outputs`.
"""
_OF_BEAMS = {"use_beam_search", "beam_width", "length_penalty", "early_stopping"}
SEVERAL_TEXTS = {"n", "best_of", *_OF_BEAMS}
"""Fields for several outputs per prompt. A command with a single output leaves them out."""

_USUAL = {
    "model", "max_model_len", "block_size", "num_gpu_blocks_override", "max_num_seqs",
    "max_num_batched_tokens", "enable_prefix_caching", "kv_cache_allocator", "batching",
}  # fmt: skip
"""Fields of `EngineConfig` that are in every help."""

Defaults = Mapping[str, object]
"""A command's own defaults, in place of the fields'."""
_NONE: Defaults = {}


def add_engine_options(parser: Parser, defaults: Defaults = _NONE) -> None:
    """Add all options of `EngineConfig`. The help shows `defaults` in place of the fields'."""
    parser.rare = {field.name for field in dataclasses.fields(EngineConfig)} - _USUAL
    group = parser.add_argument_group("engine", "the usual ones; --help=all lists all")
    add_fields(group, EngineConfig, defaults)


def engine_config(args: argparse.Namespace, defaults: Defaults = _NONE) -> EngineConfig:
    """A typed option wins over `defaults`, and `defaults` over those of the class."""
    return EngineConfig(**{**defaults, **given_fields(args, EngineConfig)})


def add_sampling_options(
    parser: Parser, defaults: Defaults = _NONE, leave_out: Set[str] = frozenset()
) -> None:
    """Add the options of `SamplingParams` except `leave_out`. The help shows `defaults`."""
    group = parser.add_argument_group("sampling")
    add_fields(group, SamplingParams, defaults, NOT_OPTIONS | leave_out)


def sampling_params(args: argparse.Namespace, defaults: Defaults = _NONE) -> SamplingParams:
    given = given_fields(args, SamplingParams)
    given.pop("seed", None)
    return SamplingParams(**{**defaults, **given})


def given_fields(args: argparse.Namespace, cls: type) -> dict[str, Any]:
    """Return the fields of a class that the user has typed as options."""
    names = (field.name for field in dataclasses.fields(cls))
    return {name: getattr(args, name) for name in names if hasattr(args, name)}


def add_model_tag(parser: Parser) -> None:
    add_option(parser, "MODEL", "the model, same as --model", dest="model_tag", nargs="?")


def take_model_tag(args: argparse.Namespace) -> None:
    """Make `MODEL`, as in `vllm serve MODEL`, the option `--model`."""
    if args.model_tag is not None:
        if getattr(args, "model", args.model_tag) != args.model_tag:
            both = f"MODEL is {args.model_tag} and --model is {args.model}"
            raise ConfigError(f"{both}: name the model once.")
        args.model = args.model_tag


def add_fields(
    group: argparse._ArgumentGroup, cls: type, defaults: Defaults = _NONE,
    leave_out: Set[str] = frozenset(),
) -> None:  # fmt: skip
    """Add an option for each field of a dataclass except `leave_out`."""
    hints, docs = get_type_hints(cls), field_docs(cls)
    for field in dataclasses.fields(cls):
        name = field.name
        if name in leave_out:
            continue
        default = defaults.get(name, field.default)
        flags = [f"--{name.replace('_', '-')}", *([f"-{name}"] if len(name) == 1 else [])]
        kind = _kind(hints[name])
        several = ["may be given several times"] * (kind.get("action") == "append")
        help_ = "; ".join([describe(docs[name], default), *several])
        group.add_argument(*flags, default=argparse.SUPPRESS, help=help_, **kind)


def describe(doc: str, default: object = None) -> str:
    """Make an option's help of its field's text, which may say what a default of None means."""
    text, _, meaning = " ".join(doc.split()).replace("`", "").partition(" None: ")
    text, meaning = text.rstrip(".;"), meaning.rstrip(".")
    if not text[1:2].isupper():  # an abbreviation
        text = text[:1].lower() + text[1:]
    if isinstance(default, bool):
        meaning = "on" if default else "off"
    elif default not in (None, dataclasses.MISSING):
        meaning = str(default)
    # argparse interprets percent signs in help texts.
    return (f"{text} (default: {meaning})" if meaning else text).replace("%", "%%")


def field_docs(cls: type) -> dict[str, str]:
    """Return the texts below the fields of a class, from its source."""
    module = ast.parse(inspect.getsource(inspect.getmodule(cls)))
    (body,) = (node.body for node in module.body if getattr(node, "name", "") == cls.__name__)
    return {
        field.target.id: after.value.value
        for field, after in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr)
    }


def _kind(hint: Any) -> dict[str, Any]:
    """Return how argparse reads a field of this type."""
    if get_origin(hint) in (Union, UnionType):
        hint, *words = (arm for arm in get_args(hint) if arm is not NoneType)
        if words:  # True, False, or one of these words, which the class checks
            values = {"true": True, "false": False}
            metavar = "{" + ",".join([*values, *get_args(*words)]) + "}"
            return {"type": lambda text: values.get(text, text), "metavar": metavar}
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction}
    if isinstance(hint, type) and issubclass(hint, NestedConfig):
        return {"action": ReadConfig, "const": hint, "metavar": "JSON"}
    if get_origin(hint) is Literal:
        return {"choices": get_args(hint)}
    if get_origin(hint) is list:
        return {"action": "append", **_kind(*get_args(hint))}
    return {"type": hint, "metavar": {int: "N", float: "X", str: "TEXT"}[hint]}


class ReadConfig(argparse.Action):
    """Parses the JSON object of class `const`: a `type` would print its error after the usage."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, self.const.of(values))


def seconds(text: str) -> float:
    """Parse a time in seconds from 0 to an hour, as an argparse type."""
    value = -1.0
    with suppress(ValueError):
        value = float(text)
    if not 0.0 <= value < 3600.0:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, at least 0; got {text!r}")
    return value
