"""`minivllm serve`: a model over HTTP, with `vllm serve`'s option names.

    minivllm serve smollm2 --port 8000

The command binds the address before it loads the model, so that "address in use" is reported at
once. Logs go to standard error, one line of JSON each.
"""

import argparse
import gc
import logging
import os
import time
from functools import partial
from importlib.util import find_spec

from minivllm import server
from minivllm.cli import options as cli_options
from minivllm.cli.loading import load_engine
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import ConfigError
from minivllm.server.logs import set_up_logging
from minivllm.server.options import ServerOptions

API_KEY = "VLLM_API_KEY"
"""The environment variable from which vLLM reads the key."""
NOT_OPTIONS = {"api_key", "allowed_hosts", "drain_timeout", "max_body_bytes", "body_timeout"}
"""Fields of `ServerOptions` without an option, or with one that has vLLM's spelling."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    cli_options.add_model_tag(parser)
    group = parser.add_argument_group("server")
    cli_options.add_fields(group, ServerOptions, leave_out=NOT_OPTIONS)
    add = partial(cli_options.add_option, group)
    add_access(group)
    wait = "seconds that running requests get to end after shutdown begins (default: 30)"
    add("--shutdown-timeout X", wait, dest="drain_timeout", default=argparse.SUPPRESS)
    levels = ("debug", "info", "warning", "error", "critical")
    lowest = "lowest level of messages that are logged"
    add("--uvicorn-log-level", lowest, choices=levels, default="info")
    cli_options.add_engine_options(parser)


def add_access(group: argparse._ActionsContainer) -> None:
    """Add the options that decide which clients a server accepts."""
    add = partial(cli_options.add_option, group)
    keys = f"clients must send one of these keys (default: the value of ${API_KEY})"
    add("--api-key KEY", keys, nargs="+", default=[])
    host = "additional Host name to accept from clients; may be given several times"
    add("--allowed-host NAME", host, dest="allowed_hosts", action="append", default=[])


def run(args: argparse.Namespace) -> int:
    need_server()
    cli_options.take_model_tag(args)
    options, config = server_options(args), cli_options.engine_config(args)
    set_up_logging(args.uvicorn_log_level)
    # The tokenizer's library cannot divide a single prompt among threads, and each of its threads
    # would use tens of MiB.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with server.bind(options) as bound:
        engine = _load(config)
        built = server.assemble(engine, options)
        # All current objects stay alive, so exclude them from garbage collections. A collection
        # that visits every block of the pool would delay a step by tens of milliseconds.
        gc.collect()
        gc.freeze()
        server.run_server(built.app, built.service, options, bound)
    return 0


def need_server() -> None:
    """Raise `ConfigError` if a package of the server is missing."""
    for name in ("starlette", "uvicorn", "prometheus_client"):
        if find_spec(name) is None:
            raise ConfigError(f"serve needs the package {name}: pip install 'minivllm[serve]'.")


def server_options(args: argparse.Namespace) -> ServerOptions:
    # A key on the command line is visible in the list of processes, so users can set the variable.
    keys = args.api_key or filter(None, [os.environ.get(API_KEY)])
    lists = {"api_key": tuple(keys), "allowed_hosts": tuple(args.allowed_hosts)}
    return ServerOptions(**cli_options.given_fields(args, ServerOptions) | lists)


def _load(config: EngineConfig) -> LLMEngine:
    log = logging.getLogger("minivllm.server")
    log.info("loading the model", extra={"fields": {"model": config.model}})
    began = time.monotonic()
    engine = load_engine(config)
    names = ("weights", "num_blocks", "block_size", "max_model_len", "max_num_seqs")
    facts = {name: getattr(engine.log_header(), name) for name in names}
    facts["seconds"] = round(time.monotonic() - began, 2)
    log.info("the model is loaded", extra={"fields": facts})
    return engine
