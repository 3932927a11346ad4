"""`minivllm shot`: a picture of any moment of a recording, as the dashboard would draw it.

The picture is an SVG file that loads nothing from other hosts.
"""

import argparse
import asyncio
import re
from pathlib import Path

from textual.pilot import Pilot

from minivllm.cli import Parser
from minivllm.cli.dashboard import add_race_option
from minivllm.cli.recording import check_output
from minivllm.cli.terminal import note
from minivllm.errors import ConfigError
from minivllm.events.recording.whole_file import write_whole
from minivllm.text import clean
from minivllm.tui.app import SCREENS, DashboardApp
from minivllm.tui.control import Entry
from minivllm.tui.draw.portable import standalone
from minivllm.tui.draw.selection import Target, event
from minivllm.tui.draw.theme import LIGHT
from minivllm.tui.keys.look_keys import find_target
from minivllm.tui.sources.replay import ReplaySource
from minivllm.tui.state.model import MODELS, DashboardModel
from minivllm.tui.time.event_search import index_of
from minivllm.tui.time.transport import Transport
from minivllm.tui.widgets.blocks.xray import XRay

_SIZE = re.compile(r"[1-9]\d{0,2}x[1-9]\d{0,2}")
_SECONDS_PER_LOOK = 0.02


def add_arguments(parser: Parser) -> None:
    parser.add("LOG", "a recording, as written by demo --record")
    parser.add("-o --output FILE", "the SVG file to write", required=True)
    parser.add("--step N", "show the end of this step (default: the last step)")
    parser.add("--screen", "which screen", choices=SCREENS, default="overview")
    parser.add("--size COLUMNSxROWS", "size of the terminal", default="120x36")
    what = "select a block (b9), a request (ada) or an event (e993); may be given several times"
    parser.add("--choose WHAT", what, action="append", default=[])
    parser.add("--with LOG", "a second recording, for the compare screen", dest="other")
    add_race_option(parser)
    parser.add("--light", "use the light theme")
    parser.add("--ascii", "use ASCII characters only")


def run(args: argparse.Namespace) -> int:
    if _SIZE.fullmatch(args.size) is None:
        raise ConfigError(
            f"--size must be columns and rows, at most 999 each, as in 120x36; got {args.size!r}."
        )
    columns, rows = map(int, args.size.split("x"))
    check_output(args.output, [args.log, args.other])
    output = Path(args.output)
    if output.suffix.lower() not in ("", ".svg"):
        raise ConfigError(
            f"shot writes SVG files only: name it {output.with_suffix('.svg')} (browsers open it;"
            " rsvg-convert and Inkscape convert it)."
        )
    write_whole(output, asyncio.run(_draw(args, (columns, rows))))
    note(f"Wrote {args.output}.")
    return 0


async def _draw(args: argparse.Namespace, size: tuple[int, int]) -> str:
    source, other = _open(args.log), None if args.other is None else _open(args.other)
    app = DashboardApp(source, other=other, state="paused", ascii=args.ascii)
    if args.light:
        app.theme = LIGHT.name
    async with app.run_test(size=size) as pilot:
        if args.race is not None:
            await _race(app, args.race)
        await app.look_keys.screen(args.screen if args.race is None else "compare")
        _go_to(app.context.transport, args)
        for what in args.choose:
            app.context.selection.choose(_target(app, what, args.log))
        before, svg = "", await _picture(app, pilot, args.log)
        while svg != before:  # on a busy machine, Textual's `pause` ends too early
            before, svg = svg, await _picture(app, pilot, args.log)
        return svg


async def _picture(app: DashboardApp, pilot: Pilot[None], log: str) -> str:
    drawn = asyncio.Event()
    app.screen.call_after_refresh(drawn.set)
    await drawn.wait()
    app.draw()
    for xray in app.screen.query(XRay):
        xray.stand_still()
    await pilot.pause()
    return standalone(app.export_screenshot(title=f"minivllm: {clean(Path(log).name)}"))


async def _race(app: DashboardApp, entry: Entry) -> None:
    await app.race_keys.start(entry)
    while (race := app.context.race).state == "running":
        app.race_keys.tick()
        await asyncio.sleep(_SECONDS_PER_LOOK)
    if race.state == "failed":
        raise ConfigError(race.sentence)


def _go_to(transport: Transport, args: argparse.Namespace) -> None:
    first, last = transport.recording.first_step, transport.recording.last_step
    if args.step is not None and not first <= args.step <= last:
        raise ConfigError(f"--step {args.step}: {args.log} has the steps {first} to {last}.")
    transport.to_step(last if args.step is None else args.step)


def _target(app: DashboardApp, what: str, log: str) -> Target:
    recording = app.context.transport.recording
    if what[:1] == "e" and what[1:].isdecimal() and index_of(recording, int(what[1:])) is not None:
        return event(int(what[1:]))
    if (target := find_target(app.context, what)) is not None:
        return target
    last_block = len(app.model.fold.blocks) - 1
    raise ConfigError(
        f"--choose {what}: {log} has no such request, block (b0 to b{last_block}) or event (e993)."
    )


def _open(path: str) -> ReplaySource[DashboardModel]:
    """Open a whole recording. If it is damaged, print a note and show it up to the damage."""
    source = ReplaySource(path, codec=MODELS)
    while source.poll(1.0):
        pass
    if source.recording.damage is not None:
        note(f"{source.recording.damage} The picture shows the state before the damage.")
    return source
