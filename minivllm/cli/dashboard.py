"""What the commands that open the dashboard share: their options, and how it is opened. Imports no torch."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minivllm.tui.app import DashboardApp


NEXT = "next"
"""What `DashboardApp.run` returns when the next recording is wanted."""


def add_dashboard_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("dashboard")
    group.add_argument("--ascii", action="store_true", help="draw with plain characters, for terminals without others")
    group.add_argument("--light", action="store_true", help="begin with the light theme (t changes it)")
    group.add_argument(
        "--keys", metavar="FILE", help="your own keys (default: minivllm/keys.toml in your configuration)"
    )


def make_app(args: argparse.Namespace, source: object, **options: object) -> "DashboardApp":
    """The dashboard on `source`, with what `add_dashboard_options` has read."""
    from minivllm.tui.app import DashboardApp
    from minivllm.tui.keymap import load_keymap
    from minivllm.tui.theme import LIGHT

    app = DashboardApp(source, ascii=args.ascii, keymap=load_keymap(args.keys), **options)
    if args.light:
        app.theme = LIGHT.name
    return app
