"""`minivllm attach`: the dashboard for an engine in another process.

The dashboard reads the engine's event stream, or a recording that is still being written. With
`--vllm`, it shows the metrics of a real vLLM server on a separate screen.
"""

import argparse
import os
from functools import partial

from minivllm.cli import add_option
from minivllm.cli.dashboard import NEXT, add_dashboard_options, make_app, run_app
from minivllm.cli.terminal import require_terminal
from minivllm.errors import ConfigError
from minivllm.tui.draw.theme import LIGHT
from minivllm.tui.sources.opening import open_source
from minivllm.tui.state.model import MODELS
from minivllm.tui.vllm.source import VllmSource
from minivllm.tui.vllm.vllm_app import VllmApp


def add_arguments(parser: argparse.ArgumentParser) -> None:
    where = "http://host:port of a server, or a recording that is still being written"
    add_option(parser, "SOURCE", where, nargs="?")
    add = partial(add_option, parser.add_argument_group("a vLLM server"))
    add("--vllm URL", "http://host:port of a vLLM server: shows its metrics")
    publisher = "tcp://host:5557 of its KV event publisher: also shows its prefix cache"
    add("--kv-events ADDRESS", publisher)
    add_dashboard_options(parser)


def run(args: argparse.Namespace) -> int:
    if (args.source is None) == (args.vllm is None):
        raise ConfigError("Name one engine: SOURCE for minivllm, or --vllm URL for a vLLM server.")
    if args.kv_events is not None and args.vllm is None:
        raise ConfigError("--kv-events needs --vllm URL: minivllm's own stream has these events.")
    if args.vllm is not None:
        return _attach_to_vllm(args)
    require_terminal("once SOURCE --json prints the engine's state in one line")
    os.nice(10)  # the engine may need every core of this machine
    notice, screen = "", "overview"
    while True:
        source = open_source(args.source, follow=True, codec=MODELS)
        app = make_app(args, source, follows=True, notice=notice, screen=screen)
        if run_app(app) != NEXT:
            return 0
        notice = "The server was restarted: this is its new engine, with a new recording."
        screen = app.current_mode


def _attach_to_vllm(args: argparse.Namespace) -> int:
    require_terminal(f"curl {args.vllm}/metrics prints the metrics of a vLLM server")
    app = VllmApp(VllmSource(args.vllm, args.kv_events), ascii=args.ascii)
    if args.light:
        app.theme = LIGHT.name
    app.run()
    return 0
