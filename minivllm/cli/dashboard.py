"""Options and start of the dashboard, for all commands that open it. Does not import torch."""

import argparse
import gc
from functools import partial

from minivllm import tui
from minivllm.cli import Parser, add_option
from minivllm.cli.terminal import forget_typed_keys, has_utf8
from minivllm.tui.control import Entry

_COLLECT_EVERY = 20_000
"""Number of new objects between two runs of the garbage collector."""

NEXT = "next"
"""Result of `DashboardApp.run` for another dashboard: a server's new engine, or the next lesson."""


def add_dashboard_options(parser: Parser) -> None:
    add = partial(add_option, parser.add_argument_group("dashboard"))
    add("--ascii", "draw with ASCII characters only (the default in a locale without UTF-8)")
    add("--light", "start with the light theme (t switches it)")
    add("--keys FILE", "your own keys (default: minivllm/keys.toml in your configuration folder)")


def add_race_option(parser: Parser) -> None:
    usual, what = "static+contiguous,continuous+paged", "serve the recording's requests again with"
    how = f"two configurations, side by side (default: {usual}; the names are those of compare)"
    parser.add("--race A,B", f"{what} {how}", nargs="?", type=_entry, const=usual)


def _entry(text: str) -> Entry:
    names = text.split(",")
    if len(names) != 2:
        raise argparse.ArgumentTypeError(f"two configurations with a comma between; got {text!r}")
    return Entry(*names)


def make_app(args: argparse.Namespace, source: object, **options: object) -> "tui.DashboardApp":
    """Create the dashboard for `source` with the options of `add_dashboard_options`."""
    ascii, keymap = args.ascii or not has_utf8(), tui.load_keymap(args.keys)
    app = tui.DashboardApp(source, ascii=ascii, keymap=keymap, **options)
    if args.light:
        app.toggle_theme()
    return app


def run_app(app: "tui.DashboardApp") -> str | None:
    """Run until the user quits; return `NEXT` if another dashboard should be opened.

    After a signal or an error, raises `SystemExit` with the exit status.
    """
    # By default, the garbage collector would look for cycles among a frame's thousands of
    # short-lived objects several times per frame.
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY)
    forget_typed_keys()  # keys pressed during the imports were not meant for the dashboard
    result = app.run()
    if app.return_code:
        raise SystemExit(app.return_code)
    return result
