"""`minivllm attach`: the dashboard for an engine in another process.

The dashboard reads the engine's event stream, or a recording that is still being written. A real
vLLM writes such a recording with the scheduler of `minivllm.vllm`.
"""

import argparse
import os

from minivllm.cli import Parser
from minivllm.cli.dashboard import NEXT, add_dashboard_options, make_app, run_app
from minivllm.cli.terminal import require_terminal
from minivllm.errors import ConfigError
from minivllm.tui.sources.opening import open_source
from minivllm.tui.state.model import MODELS


def add_arguments(parser: Parser) -> None:
    where = "http://host:port of a server, or a recording that is still being written"
    parser.add("SOURCE", where, nargs="?")
    parser.add("--vllm URL", argparse.SUPPRESS)
    add_dashboard_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.vllm is not None:
        raise ConfigError(
            "vLLM's scheduler must record its decisions: MINIVLLM_RECORD=run.jsonl vllm serve MODEL"
            " --scheduler-cls minivllm.vllm.RecordingScheduler, and then minivllm attach run.jsonl."
        )
    if args.source is None:
        raise ConfigError("Name an engine: the address of a server, or a recording that grows.")
    require_terminal("once SOURCE --json prints the engine's state in one line")
    os.nice(10)  # the engine may need every core of this machine
    notice, screen = "", "overview"
    while True:
        source = open_source(args.source, follow=True, codec=MODELS)
        app = make_app(args, source, follows=True, notice=notice, screen=screen)
        if run_app(app) != NEXT:
            return 0
        notice = "The recording was replaced by a new one, which is shown from its beginning."
        screen = app.current_mode
