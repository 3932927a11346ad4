"""`minivllm replay`: plays recordings in the dashboard, or writes a web page that plays them."""

import argparse
from pathlib import Path

from minivllm.cli.dashboard import NEXT, add_dashboard_options, add_race_option, make_app, run_app
from minivllm.cli.recording import check_output
from minivllm.cli.terminal import note, require_terminal
from minivllm.errors import ConfigError, EventLogError
from minivllm.tui.sources.replay import ReplaySource
from minivllm.tui.state.model import MODELS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "logs",
        metavar="LOG",
        nargs="+",
        help="recordings, as written by demo --record; ctrl+n opens the next",
    )
    parser.add_argument(
        "--with",
        dest="other",
        metavar="LOG",
        help="a second recording of the same requests, to compare with",
    )
    parser.add_argument(
        "--step", type=int, metavar="N", help="start at the end of this step, paused"
    )
    parser.add_argument(
        "--web",
        metavar="FILE",
        help="write a web page that plays the recording, to open from disk or to send",
    )
    add_race_option(parser)
    add_dashboard_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.web is not None:
        return _write_page(args)
    number, unreadable = 0, ""
    bad: dict[int, EventLogError] = {}
    while True:
        try:
            if _show(args, number, unreadable) != NEXT:
                return 0
            unreadable = ""
        except EventLogError as error:
            bad[number] = error
            if len(bad) == len(args.logs):  # no recording is readable
                raise
            unreadable = f" {error}"
        number = (number + 1) % len(args.logs)


def _write_page(args: argparse.Namespace) -> int:
    from minivllm.cli.recordings.web import write_page

    if len(args.logs) > 1:
        raise ConfigError("--web takes one recording; add --with LOG for a second beside it.")
    paths = [*args.logs, *([] if args.other is None else [args.other])]
    page = Path(args.web)
    check_output(args.web, paths)
    size = write_page(page, paths, args.step)
    note(f"{page}: {size / 1000:,.0f} kB. Open it in a browser: {page.resolve().as_uri()}")
    return 0


def _show(args: argparse.Namespace, number: int, unreadable: str) -> str | None:
    """Show a recording until the user leaves; return `NEXT` to show the next recording.

    unreadable: why the previous recording could not be shown, if so
    """
    log = args.logs[number]
    source = ReplaySource(log, codec=MODELS)
    other = None if args.other is None else ReplaySource(args.other, codec=MODELS)
    # Check this only now: if a recording cannot be opened, report that first.
    require_terminal(
        "once LOG --json prints the state in a recording, and shot LOG draws a picture of it"
    )
    has_next = len(args.logs) > 1
    place = f"{Path(log).name}, {number + 1} of {len(args.logs)} recordings; ctrl+n opens the next."
    watch = f"{place}{unreadable}" if has_next else ""
    state, step = ("playing", 0) if args.step is None else ("paused", args.step)
    app = make_app(
        args,
        source,
        watch=watch,
        other=other,
        state=state,
        first_step=step,
        has_next=has_next,
        race=args.race,
    )
    return run_app(app)
