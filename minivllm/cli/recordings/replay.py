"""`minivllm replay`: plays a recording in the dashboard, or writes a web page that plays it."""

import argparse
from pathlib import Path

from minivllm.cli import Parser, recordings
from minivllm.cli.dashboard import add_dashboard_options, add_race_option, make_app, run_app
from minivllm.cli.recording import check_output
from minivllm.cli.terminal import note, require_terminal
from minivllm.tui.sources.replay import ReplaySource
from minivllm.tui.state.model import MODELS


def add_arguments(parser: Parser) -> None:
    parser.add("LOG", "a recording, as written by demo --record")
    parser.add("--with LOG", "a second recording of the same requests, beside it", dest="other")
    parser.add("--step N", "start at the end of this step, paused")
    parser.add("--web FILE", "write a web page that plays it, to open from disk or to send")
    add_race_option(parser)
    add_dashboard_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.web is not None:
        paths = [args.log, *([] if args.other is None else [args.other])]
        check_output(args.web, paths)
        page, size = Path(args.web), recordings.write_page(args.web, paths, args.step)
        note(f"{page}: {size / 1000:,.0f} kB. Open it in a browser: {page.resolve().as_uri()}")
        return 0
    source = ReplaySource(args.log, codec=MODELS)
    other = None if args.other is None else ReplaySource(args.other, codec=MODELS)
    # Check this only now: if a recording cannot be opened, report that first.
    require_terminal(
        "once LOG --json prints the state in a recording, and shot LOG draws a picture of it"
    )
    state, step = ("playing", 0) if args.step is None else ("paused", args.step)
    run_app(make_app(args, source, other=other, state=state, first_step=step, race=args.race))
    return 0
