"""`minivllm attach`: the dashboard on an engine in another process, through its event stream or its growing recording."""

import argparse
import os

from minivllm.cli.dashboard import add_dashboard_options, make_app, run_app
from minivllm.cli.terminal import require_terminal

_NICENESS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", help="http://host:port of a server, or a recording that still grows"
    )
    add_dashboard_options(parser)


def run(args: argparse.Namespace) -> int:
    from minivllm.tui.model import MODELS
    from minivllm.tui.source import open_source

    require_terminal("once SOURCE --json says in one line what the engine is doing")
    if hasattr(os, "nice"):
        # The engine may be on this machine and need every core: its steps go first, and a frame comes a little later.
        os.nice(_NICENESS)
    run_app(make_app(args, open_source(args.source, follow=True, codec=MODELS)))
    return 0
