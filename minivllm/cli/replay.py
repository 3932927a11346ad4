"""`minivllm replay`: a recording in the dashboard, from its first event."""

import argparse

from minivllm.cli.dashboard import add_dashboard_options, make_app, run_app
from minivllm.cli.terminal import require_terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", metavar="LOG", help="a recording, as demo --record writes it")
    parser.add_argument(
        "--with", dest="other", metavar="LOG", help="a second recording of the same requests, to compare with"
    )
    parser.add_argument("--step", type=int, metavar="N", help="begin at the end of this step, standing still")
    add_dashboard_options(parser)


def run(args: argparse.Namespace) -> int:
    from minivllm.tui.model import MODELS
    from minivllm.tui.source import ReplaySource

    require_terminal("once LOG --json says what a recording holds, and shot LOG draws a picture of it")
    source = ReplaySource(args.log, codec=MODELS)
    other = None if args.other is None else ReplaySource(args.other, codec=MODELS)
    app = make_app(args, source, other=other, state="playing" if args.step is None else "paused", first_step=args.step)
    return run_app(app)
