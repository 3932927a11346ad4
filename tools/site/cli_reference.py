"""The lists of docs/use/cli.md: all commands of `minivllm` with options, from argparse's parsers.

It reads the parsers themselves, because argparse's help differs between Python versions. Paths in
the user's home folder must not appear in the page. Options that many commands share are listed
once.
"""

import argparse
from pathlib import Path

from page_text import code, prose, sentence, source_link, table

from minivllm.cli import COMMANDS, build_parser
from minivllm.cli.options import add_engine_options, add_sampling_options

Rows = dict[str, tuple[str, str]]
"""By `dest`: an option and its meaning, the two cells of a table row."""

SHARED = {
    "engine": ("Engine options", "EngineConfig"),
    "sampling": ("Sampling options", "SamplingParams"),
}
"""Option group that many commands share -> heading of its section, and the class of its fields."""


def commands() -> str:
    everything = argparse.ArgumentParser(add_help=False)
    add_engine_options(everything)
    add_sampling_options(everything)
    shared = {group.title: _rows(group) for group in everything._action_groups}
    summaries = (
        (f"[{code(name)}](#minivllm-{name})", prose(sentence(summary)))
        for name, (_, summary) in COMMANDS.items()
    )
    text = table(("Command", "What it does"), summaries)
    for name, (folder, _) in COMMANDS.items():
        source = source_link(f"minivllm.cli.{folder}.{name.replace('-', '_')}")
        parser = _subparsers(build_parser(name))[name]
        text += _section(parser, 2, shared, f" Source: {source}.")
    for group, (heading, cls) in SHARED.items():
        link = f"[`{cls}`](configuration.md#{cls.lower()})"
        text += f"\n## {heading}\n\nThe fields of {link}, for the commands that refer to them.\n\n"
        text += _table(shared[group])
    return text


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return found[0].choices if found else {}


def _section(
    parser: argparse.ArgumentParser, level: int, shared: dict[str, Rows], source: str = ""
) -> str:
    text = f"\n{'#' * level} {parser.prog}\n\n{prose(parser.description or '')}{source}\n"
    text += f"\n```text\n{_usage(parser)}\n```\n"
    own = (parser._positionals, parser._optionals)  # argparse's own titles differ between versions
    parts = {"": _rows(own[0]) | _rows(own[1])}
    parts |= {group.title: _rows(group) for group in parser._action_groups if group not in own}
    for title, rows in parts.items():
        if rows and title in SHARED:
            text += f"\n{_compared(rows, shared[title], SHARED[title][0])}"
        elif rows:
            text += f"\n{sentence(title + ':')}\n\n{_table(rows)}" if title else f"\n{_table(rows)}"
    for group in parser._mutually_exclusive_groups:
        names = [code(arg.option_strings[0]) for arg in group._group_actions if arg.option_strings]
        text += f"\nOnly one of {' and '.join(names)} can be given.\n"
    if parser.epilog:
        laid_out = issubclass(parser.formatter_class, argparse.RawDescriptionHelpFormatter)
        epilog = parser.epilog.strip()
        text += f"\n```text\n{epilog}\n```\n" if laid_out else f"\n{prose(epilog)}\n"
    for command in dict.fromkeys(_subparsers(parser).values()):
        text += _section(command, level + 1, shared)
    return text


def _usage(parser: argparse.ArgumentParser) -> str:
    """The usage in one line, with `[OPTIONS]` in place of all options that are not required."""
    options = [arg for arg in parser._actions if arg.option_strings and arg.dest != "help"]
    words = [f"{arg.option_strings[0]} {_value(arg)}" for arg in options if arg.required]
    words += ["[OPTIONS]"] if any(not arg.required for arg in options) else []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words.append(f"{action.metavar} ...")
        elif not action.option_strings:
            words.append(_value(action))
    return " ".join((parser.prog, *words))


def _table(rows: Rows) -> str:
    return table(("Option", "Meaning"), rows.values())


def _rows(group: argparse._ArgumentGroup) -> Rows:
    """Without `--help` and hidden options."""
    return {
        action.dest: (_names(action), _meaning(action))
        for action in group._group_actions
        if action.help != argparse.SUPPRESS
        and not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
    }


def _names(action: argparse.Action) -> str:
    names = [code(f"{name} {_value(action)}".strip()) for name in action.option_strings]
    return ", ".join(names) or code(_value(action))


def _value(action: argparse.Action) -> str:
    name = action.metavar or action.dest
    if isinstance(name, tuple):
        name = " ".join(name)
    elif action.option_strings and not action.metavar:
        name = "CHOICE" if action.choices else action.option_strings[0].lstrip("-").upper()
    forms = {0: "", "+": f"{name} ...", "*": f"[{name} ...]", "?": f"[{name}]"}
    return forms.get(action.nargs, name)


def _meaning(action: argparse.Action) -> str:
    text = argparse.HelpFormatter("minivllm")._expand_help(action) if action.help else ""
    # If the help does not state the default, add it, unless the default means "not given".
    not_given = (None, argparse.SUPPRESS, False, (), [], "")
    if "default:" not in text and action.default not in not_given:
        text += f" (default: {action.default})"
    choices = f" One of {', '.join(map(code, action.choices))}." if action.choices else ""
    home = str(Path.home())
    cell = f"{prose(sentence(text))}{choices}".strip()
    return cell.replace(home, "~") if home != "/" else cell


def _compared(rows: Rows, shared: Rows, heading: str) -> str:
    """A group of shared options: what the command lacks, and what is different for it."""
    link = f"[{heading.lower()}](#{heading.lower().replace(' ', '-')})"
    missing = [row[0].split("`")[1].split()[0] for dest, row in shared.items() if dest not in rows]
    text = f"All {link}" + (f" but {', '.join(map(code, missing))}" if missing else "")
    different = {dest: row for dest, row in rows.items() if row != shared.get(dest)}
    return (
        f"{text}; here these are different:\n\n{_table(different)}" if different else f"{text}.\n"
    )
