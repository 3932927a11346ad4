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

Row = tuple[str, str]
"""(an option, its meaning): the two cells of a table row"""

SHARED = {"engine": "Engine options", "sampling": "Sampling options"}
"""Title of an option group that many commands share -> heading of the group's section."""


def commands() -> str:
    shared = _shared_groups()
    parsers = {name: _subparser(build_parser(name), name) for name in COMMANDS}
    text = table(
        ("Command", "What it does"),
        (
            (f"[{code(name)}](#minivllm-{name})", prose(sentence(summary)))
            for name, (_, summary) in COMMANDS.items()
        ),
    )
    for name, parser in parsers.items():
        text += _section(
            parser, 2, shared, source=f"minivllm.cli.{COMMANDS[name][0]}.{name.replace('-', '_')}"
        )
    for title, rows in shared.items():
        text += f"\n## {SHARED[title]}\n\nThe fields of "
        cls = {"engine": "EngineConfig", "sampling": "SamplingParams"}[title]
        text += (
            f"[`{cls}`](configuration.md#{cls.lower()}), for the commands that refer to them.\n\n"
        )
        text += table(("Option", "Meaning"), rows.values())
    return text


def _shared_groups() -> dict[str, dict[str, Row]]:
    parser = argparse.ArgumentParser(add_help=False)
    add_engine_options(parser)
    add_sampling_options(parser)
    return {
        group.title: _rows(group._group_actions)
        for group in parser._action_groups
        if group.title in SHARED
    }


def _subparser(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    return _subparsers_of(parser).choices[name]


def _subparsers_of(parser: argparse.ArgumentParser) -> argparse._SubParsersAction | None:
    return next(
        (option for option in parser._actions if isinstance(option, argparse._SubParsersAction)),
        None,
    )


def _section(
    parser: argparse.ArgumentParser, level: int, shared: dict[str, dict[str, Row]], source: str = ""
) -> str:
    text = f"\n{'#' * level} {parser.prog}\n\n{prose(parser.description or '')}"
    text += f" Source: {source_link(source)}.\n" if source else "\n"
    text += f"\n```text\n{usage(parser)}\n```\n"
    tables: dict[str, dict[str, Row]] = {}
    for group in parser._action_groups:
        # Two groups are argparse's own. Their titles depend on the Python version, so drop them.
        title = group.title or "" if group not in (parser._positionals, parser._optionals) else ""
        tables[title] = tables.get(title, {}) | _rows(group._group_actions)
    for title, rows in tables.items():
        if rows and title in shared:
            text += "\n" + _compared(rows, shared[title], title)
        elif rows:
            text += (
                "\n"
                + (f"{sentence(title + ':')}\n\n" if title else "")
                + table(("Option", "Meaning"), rows.values())
            )
    for group in parser._mutually_exclusive_groups:
        names = " and ".join(
            code(option.option_strings[0])
            for option in group._group_actions
            if option.option_strings
        )
        text += f"\nOnly one of {names} can be given.\n"
    if parser.epilog:
        laid_out = issubclass(parser.formatter_class, argparse.RawDescriptionHelpFormatter)
        text += (
            f"\n```text\n{parser.epilog.strip()}\n```\n"
            if laid_out
            else f"\n{prose(parser.epilog)}\n"
        )
    if (subparsers := _subparsers_of(parser)) is not None:
        for command in dict.fromkeys(subparsers.choices.values()):
            text += _section(command, level + 1, shared)
    return text


def usage(parser: argparse.ArgumentParser) -> str:
    """The usage in one line, with `[OPTIONS]` in place of all options that are not required."""
    words = [parser.prog]
    required = [option for option in parser._actions if option.option_strings and option.required]
    words += [f"{option.option_strings[0]} {_value(option)}".strip() for option in required]
    if any(
        option.option_strings and not option.required and option.dest != "help"
        for option in parser._actions
    ):
        words.append("[OPTIONS]")
    for option in parser._actions:
        if isinstance(option, argparse._SubParsersAction):
            words.append(f"{option.metavar} ...")
        elif not option.option_strings:
            words.append(_positional(option))
    return " ".join(words)


def _positional(action: argparse.Action) -> str:
    name = _metavar(action)
    return {None: name, "?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} ..."}.get(
        action.nargs, name
    )


def _rows(actions: list[argparse.Action]) -> dict[str, Row]:
    """Return rows by `dest`, without `--help` and hidden options."""
    shown = (
        option
        for option in actions
        if option.help != argparse.SUPPRESS
        and not isinstance(option, (argparse._HelpAction, argparse._SubParsersAction))
    )
    return {option.dest: (_names(option), _meaning(option)) for option in shown}


def _names(action: argparse.Action) -> str:
    if not action.option_strings:
        return code(_positional(action))
    value = _value(action)
    return ", ".join(code(f"{name} {value}".strip()) for name in action.option_strings)


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    name = _metavar(action)
    return {"+": f"{name} ...", "*": f"[{name} ...]", "?": f"[{name}]"}.get(action.nargs, name)


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar:
        return action.metavar
    if not action.option_strings:
        return action.dest
    return "CHOICE" if action.choices is not None else action.option_strings[0].lstrip("-").upper()


def _meaning(action: argparse.Action) -> str:
    values = {name: value for name, value in vars(action).items() if value is not argparse.SUPPRESS}
    help_ = (action.help or "") % values
    # If the help does not state the default, add it, unless the default means "not given".
    if "default:" not in help_ and action.default not in (
        None,
        argparse.SUPPRESS,
        False,
        (),
        [],
        "",
    ):
        help_ += f" (default: {action.default})"
    cell = prose(sentence(help_))
    if action.choices is not None:
        cell += f" One of {', '.join(code(option) for option in action.choices)}."
    home = str(Path.home())
    return cell.strip().replace(home, "~") if home != "/" else cell.strip()


def _compared(rows: dict[str, Row], shared: dict[str, Row], title: str) -> str:
    heading = SHARED[title]
    link = f"[{heading.lower()}](#{heading.lower().replace(' ', '-')})"
    missing = [
        code(shared[dest][0].strip("`").split(" ")[0].rstrip(",").strip("`"))
        for dest in shared
        if dest not in rows
    ]
    text = f"All {link}" + (f" but {', '.join(missing)}" if missing else "")
    different = [row for dest, row in rows.items() if row != shared.get(dest)]
    if not different:
        return f"{text}.\n"
    return f"{text}; here these are different:\n\n" + table(("Option", "Meaning"), different)
