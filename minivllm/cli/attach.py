"""`minivllm attach`: the dashboard on an engine in another process, through its event stream or its growing recording."""

import argparse

from minivllm.cli.dashboard import add_dashboard_options, make_app
from minivllm.cli.terminal import require_terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", help="http://host:port of a server, or a recording that still grows"
    )
    add_dashboard_options(parser)


def run(args: argparse.Namespace) -> int:
    from minivllm.tui.model import MODELS
    from minivllm.tui.source import open_source

    require_terminal("once SOURCE --json says in one line what the engine is doing")
    make_app(args, open_source(args.source, follow=True, codec=MODELS)).run()
    return 0
