"""`minivllm export`: converts a recording to a format of other programs.

    minivllm export run.jsonl --perfetto run.json      # then open run.json in ui.perfetto.dev

`minivllm.events.perfetto` describes the format.
"""

import argparse

from minivllm.cli import Parser
from minivllm.cli.recording import check_output
from minivllm.cli.terminal import note
from minivllm.errors import EventLogError
from minivllm.events.perfetto import export_perfetto
from minivllm.events.recording.whole_file import whole_file


def add_arguments(parser: Parser) -> None:
    parser.add("LOG", "a recording (JSON Lines)")
    trace = "write a Chrome trace into FILE, for ui.perfetto.dev or chrome://tracing"
    parser.add("--perfetto FILE", trace, required=True)


def run(args: argparse.Namespace) -> int:
    check_output(args.perfetto, [args.log])
    with whole_file(args.perfetto) as file:
        exported = export_perfetto(args.log, file)
        size = file.tell() if file.seekable() else 0
    what = f"{exported.steps:,} steps from {exported.events:,} events"
    where = f"{args.perfetto} ({size / 1e6:,.1f} MB)"
    note(f"Wrote {what} into {where}; open it in ui.perfetto.dev.")
    if exported.lost_events:
        note(
            f"{exported.lost_events:,} events are missing in the recording; after this gap the"
            " trace shows only steps and decisions."
        )
    if exported.damage is not None:
        raise EventLogError(f"{exported.damage} The trace ends before it.")
    return 0
