"""`minivllm tour`: ninety seconds on a running engine: six stops, a sentence and a key each."""

import argparse
from dataclasses import replace

from minivllm.cli import build_parser
from minivllm.cli.dashboard import add_dashboard_options
from minivllm.cli.serving import demo
from minivllm.cli.terminal import require_terminal
from minivllm.lessons.scenarios.house import HOUSE_MODEL
from minivllm.lessons.scenarios.scenarios import SHARED_PREFIX
from minivllm.tui.tour import Tour


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_dashboard_options(parser)


def run(args: argparse.Namespace) -> int:
    require_terminal("demo --headless runs the same requests without one")
    # So few that the requests of the default demo run out of them within seconds.
    options = {**SHARED_PREFIX.options, "num_gpu_blocks_override": 24}
    whole = build_parser("demo").parse_args(["demo", "--model", HOUSE_MODEL])
    vars(whole).update(vars(args))
    return demo.play(whole, replace(SHARED_PREFIX, options=options), Tour())
