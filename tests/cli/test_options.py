"""The options of the command line are the fields of the configuration, no more and no less."""

import argparse
import dataclasses
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

import pytest

from minivllm.cli import COMMANDS, build_parser
from minivllm.cli.options import (
    ENGINE_HELP,
    NOT_OPTIONS,
    SAMPLING_HELP,
    add_engine_options,
    add_sampling_options,
    engine_config,
    sampling_params,
)
from minivllm.config import EngineConfig
from minivllm.sampling_params import SamplingParams


def engine_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    add_engine_options(parser)
    return parser


def sampling_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    add_sampling_options(parser)
    return parser


def all_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from all_parsers(subparser)


def example(hint: object, default: object) -> tuple[list[str], object]:
    """An argument for a field of type `hint` that differs from its default, and the value that it
    must become.
    """
    if get_origin(hint) in (Union, UnionType):
        hint, *words = (arm for arm in get_args(hint) if arm is not NoneType)
        if words:
            return ["never"], "never"
    if hint is bool:
        return [], not default
    if get_origin(hint) is Literal:
        choice = next((choice for choice in get_args(hint) if choice != default), default)
        return [str(choice)], choice
    if get_origin(hint) is list:
        arguments, value = example(get_args(hint)[0], None)
        return arguments, [value]
    return {int: (["7"], 7), float: (["0.5"], 0.5), str: (["x"], "x")}[hint]


IN_COMPANY = {
    "batch_size": {"batch_delay": 0.1},
    "use_beam_search": {"n": 2},
    "length_penalty": {"beam_width": 2},
    "early_stopping": {"beam_width": 2},
}
"""Fields that are refused where another is not given, too."""


def in_company(field: str) -> tuple[list[str], dict[str, object]]:
    """What else must be given, as arguments and as values."""
    values = IN_COMPANY.get(field, {})
    return [
        word
        for name, value in values.items()
        for word in ("--" + name.replace("_", "-"), str(value))
    ], values


@pytest.mark.parametrize("field", dataclasses.fields(EngineConfig), ids=lambda field: field.name)
def test_every_field_of_the_engine_is_an_option_in_vllms_spelling(field: dataclasses.Field):
    arguments, value = example(get_type_hints(EngineConfig)[field.name], field.default)
    flag = "--" + field.name.replace("_", "-")
    if value is False:
        flag = flag.replace("--", "--no-", 1)
    more_arguments, more_values = in_company(field.name)
    args = engine_parser().parse_args([flag, *arguments, *more_arguments])
    assert engine_config(args) == EngineConfig(**{field.name: value}, **more_values)


@pytest.mark.parametrize(
    "field",
    [f for f in dataclasses.fields(SamplingParams) if f.name not in NOT_OPTIONS],
    ids=lambda field: field.name,
)
def test_every_field_of_the_sampling_is_an_option_in_vllms_spelling(field: dataclasses.Field):
    arguments, value = example(get_type_hints(SamplingParams)[field.name], field.default)
    more_arguments, more_values = in_company(field.name)
    args = sampling_parser().parse_args(
        ["--" + field.name.replace("_", "-"), *arguments, *more_arguments]
    )
    assert sampling_params(args) == SamplingParams(**{field.name: value}, **more_values)


def test_help_is_written_for_the_fields_that_exist_and_for_no_others():
    assert set(ENGINE_HELP) == {field.name for field in dataclasses.fields(EngineConfig)}
    assert set(SAMPLING_HELP) | NOT_OPTIONS == {
        field.name for field in dataclasses.fields(SamplingParams)
    }
    assert set(SAMPLING_HELP) & NOT_OPTIONS == set()


def test_an_option_that_is_not_given_leaves_the_default_of_the_command_or_of_the_field():
    args = engine_parser().parse_args(["--max-num-seqs", "3"])
    config = engine_config(args, {"max_num_seqs": 5, "block_size": 8})
    assert (config.max_num_seqs, config.block_size, config.max_num_batched_tokens) == (3, 8, 512)
    assert sampling_params(
        sampling_parser().parse_args([]), {"temperature": 0.0}
    ) == SamplingParams(temperature=0.0)


def test_options_that_may_be_repeated_are_collected():
    args = sampling_parser().parse_args(
        ["--stop", "a", "--stop", "b", "--stop-token-ids", "1", "--stop-token-ids", "2"]
    )
    assert sampling_params(args).stop == ["a", "b"]
    assert sampling_params(args).stop_token_ids == [1, 2]


def test_the_seed_of_the_command_line_is_the_engines():
    parser = engine_parser()
    add_sampling_options(parser)
    args = parser.parse_args(["--seed", "9"])
    assert engine_config(args).seed == 9
    assert sampling_params(args).seed is None


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_every_command_has_help(command: str):
    silent = [
        f"{parser.prog} {action.option_strings or action.dest}"
        for parser in all_parsers(build_parser(command))
        for action in parser._actions
        if not isinstance(action, argparse._SubParsersAction) and not action.help
    ]
    assert silent == []
