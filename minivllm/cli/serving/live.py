"""`minivllm live`: your own engine in the dashboard; keys send requests, pause, step, set options.

The command is `demo` without a scenario: the engine is idle until the user sends a request (key a,
key A for four requests at once, or --ask).
"""

import argparse

from minivllm.cli.dashboard import add_dashboard_options
from minivllm.cli.loading import build_engine
from minivllm.cli.options import Parser, add_engine_options, engine_config, seconds
from minivllm.cli.recording import add_record_option, recording
from minivllm.cli.serving.engine_control import EngineThreadControl
from minivllm.cli.starting import Built, Starting
from minivllm.cli.terminal import require_terminal
from minivllm.engine.engine_thread import EngineThread
from minivllm.runtime.progress import Progress
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.start import Started
from minivllm.tui.state.model import MODELS

WATCH = "a asks the model, A sends four requests, p pauses, n runs one step."
OPTIONS = {
    "num_gpu_blocks_override": 128,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 128,
    "max_model_len": 1024,
}
"""For a small engine, all of which fits on the screen."""


def add_arguments(parser: Parser) -> None:
    parser.add("--ask TEXT", "a first request; may be repeated", action="append", default=[])
    add_record_option(parser)
    parser.add("--slow SECONDS", "minimum duration of a step", type=seconds, default=0.1)
    add_dashboard_options(parser)
    add_engine_options(parser, dict.fromkeys(OPTIONS, "small enough to see all of it"))


def run(args: argparse.Namespace) -> int:
    require_terminal("demo --headless and generate run an engine without one")
    config = engine_config(args, OPTIONS)
    with recording(args.record) as record:

        def build(progress: Progress) -> Built:
            engine = build_engine(config, progress)
            header = engine.log_header()
            source = InProcessSource(header, codec=MODELS)
            engine.subscribe(source.put)
            writer = record(header, engine.subscribe)
            thread = EngineThread(engine, seconds_per_step=args.slow)
            control = EngineThreadControl(thread)
            for text in args.ask:
                control.add_request(text)
            return Started(source, control, writer), thread

        thread = Starting(build).run(args, config.model, watch=WATCH, suggests=True)
        thread.join()  # raises the engine's error
    return 0
