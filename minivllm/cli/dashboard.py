"""What the commands that open the dashboard share: their options, and how it is opened. Imports no
torch.
"""

import argparse
import gc
import sys
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minivllm.tui.app import DashboardApp

_COLLECT_EVERY = 20_000
"""Objects that must be there more than at the last collection before there is another."""


NEXT = "next"
"""What `DashboardApp.run` returns when the next recording is wanted."""


def add_dashboard_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("dashboard")
    group.add_argument(
        "--ascii",
        action="store_true",
        help="draw with ASCII characters only, for terminals without others",
    )
    group.add_argument(
        "--light", action="store_true", help="start with the light theme (t switches it)"
    )
    group.add_argument(
        "--keys",
        metavar="FILE",
        help="your own key table (default: minivllm/keys.toml in your configuration folder)",
    )


def make_app(args: argparse.Namespace, source: object, **options: object) -> "DashboardApp":
    """The dashboard on `source`, with what `add_dashboard_options` has read."""
    from minivllm.tui.app import DashboardApp
    from minivllm.tui.draw.theme import LIGHT
    from minivllm.tui.keys.keymap import load_keymap

    app = DashboardApp(source, ascii=args.ascii, keymap=load_keymap(args.keys), **options)
    if args.light:
        app.theme = LIGHT.name
    return app


def run_app(app: "DashboardApp") -> str | None:
    """Until the person leaves; `NEXT` if the next recording is wanted.

    Raises `SystemExit` with the exit status if it was ended by a signal, or by something that
    cannot be shown.
    """
    # A frame makes thousands of small objects that are gone with the next one. By default the
    # collector would look for rings among them several times a frame, and now and then through all
    # modules, which are there to stay.
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY)
    if sys.stdin.isatty():
        # Keys pressed while the model was loaded were not meant for a dashboard that nobody saw.
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    result = app.run()
    if app.return_code:
        raise SystemExit(app.return_code)
    return result
