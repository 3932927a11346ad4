"""The command-line options are exactly the fields of the configuration."""

import argparse
import dataclasses
import json
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

import pytest

from minivllm.cli import options
from minivllm.config import EngineConfig, KVTransferConfig, SpeculativeConfig
from minivllm.sampling_params import SamplingParams

NESTED = {
    SpeculativeConfig: {"method": "ngram", "num_speculative_tokens": 4},
    KVTransferConfig: {"kv_connector": "SimpleCPUOffloadConnector"},
}


def example(hint: object, default: object) -> tuple[list[str], object]:
    """A non-default argument for a field of type `hint`, and its parsed value."""
    if get_origin(hint) in (Union, UnionType):
        hint, *words = (arm for arm in get_args(hint) if arm is not NoneType)
        if words:
            return ["never"], "never"
    if hint is bool:
        return [], not default
    if get_origin(hint) is Literal:
        choice = next((choice for choice in get_args(hint) if choice != default), default)
        return [str(choice)], choice
    if hint in NESTED:
        return [json.dumps(NESTED[hint])], hint.of(NESTED[hint])
    if get_origin(hint) is list:
        arguments, value = example(get_args(hint)[0], None)
        return arguments, [value]
    return {int: (["7"], 7), float: (["0.5"], 0.5), str: (["x"], "x")}[hint]


IN_COMPANY = {
    "batch_size": {"batch_delay": 0.1}, "use_beam_search": {"n": 2},
    "length_penalty": {"beam_width": 2}, "early_stopping": {"beam_width": 2},
}  # fmt: skip
"""Fields that are only valid together with another."""


FIELDS = [
    (cls, field)
    for cls in (EngineConfig, SamplingParams)
    for field in dataclasses.fields(cls)
    if field.name not in options.NOT_OPTIONS or cls is EngineConfig
]


@pytest.mark.parametrize(("cls", "field"), FIELDS, ids=lambda value: getattr(value, "name", ""))
def test_every_field_is_an_option_in_vllms_spelling(cls, field):
    parser = argparse.ArgumentParser()
    add_options, read = {
        EngineConfig: (options.add_engine_options, options.engine_config),
        SamplingParams: (options.add_sampling_options, options.sampling_params),
    }[cls]
    add_options(parser)
    arguments, value = example(get_type_hints(cls)[field.name], field.default)
    flag = "--no-" if value is False else "--"
    arguments = [flag + field.name.replace("_", "-"), *arguments]
    others = IN_COMPANY.get(field.name, {})
    for name, other in others.items():
        arguments += ["--" + name.replace("_", "-"), str(other)]
    assert read(parser.parse_args(arguments)) == cls(**{field.name: value}, **others)


def test_an_option_that_is_not_given_leaves_the_default_of_the_command_or_of_the_field():
    parser = argparse.ArgumentParser()
    options.add_engine_options(parser)
    options.add_sampling_options(parser)
    args = parser.parse_args(["--max-num-seqs", "3", "--seed", "9"])
    config = options.engine_config(args, {"max_num_seqs": 5, "block_size": 8})
    assert (config.max_num_seqs, config.block_size, config.max_num_batched_tokens) == (3, 8, 512)
    assert config.seed == 9, "it is the engine's, and no request's"
    assert options.sampling_params(args, {"temperature": 0.0}) == SamplingParams(temperature=0.0)
