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
from dataclasses import fields
from typing import get_args

from minivllm.cli.loading import load_engine
from minivllm.cli.options import add_engine_options, engine_config
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import ConfigError
from minivllm.server.feeds.kv_options import KVEventsConfig
from minivllm.server.logs import set_up_logging
from minivllm.server.options import GenerateDelimiter, ServerOptions
from minivllm.server.parsers.choose import ReasoningParserName, ToolParserName

API_KEY = "VLLM_API_KEY"
"""The environment variable from which vLLM reads the key."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model_tag", nargs="?", metavar="MODEL", help="the model, same as --model")
    group = parser.add_argument_group("server")
    _add_server_options(group)
    group.add_argument(
        "--kv-events-config",
        metavar="JSON",
        default="{}",
        help=(
            'publish changes of the prefix cache over ZeroMQ: {"enable_kv_cache_events": true, ...}'
        ),
    )
    group.add_argument(
        "--uvicorn-log-level",
        choices=("debug", "info", "warning", "error", "critical"),
        default="info",
        help="lowest level of messages that are logged (default: info)",
    )
    add_engine_options(parser)


def _add_server_options(group: argparse._ArgumentGroup) -> None:
    """Add the options that become `ServerOptions`, with the defaults of that class."""
    own = {field.name: field.default for field in fields(ServerOptions)}

    def add(name: str, help_: str, **how: object) -> None:
        dest = how.setdefault("dest", name.removeprefix("--").replace("-", "_"))
        shown = own[dest] if type(own[dest]) in (int, float, str) else None
        group.add_argument(
            name,
            help=help_ if shown is None else f"{help_} (default: {shown})",
            default=own[dest],
            **how,
        )

    add(
        "--host",
        "address to serve on; an address that other machines can reach needs an API key",
        metavar="ADDRESS",
    )
    add("--port", "port to serve on; 0 picks a free one", type=int, metavar="N")
    add(
        "--api-key",
        f"clients must send one of these keys (default: the value of ${API_KEY})",
        nargs="+",
        metavar="KEY",
    )
    add("--served-model-name", "model name that clients use", metavar="NAME")
    add(
        "--allowed-host",
        "additional Host name to accept from clients",
        dest="allowed_hosts",
        action="append",
        metavar="NAME",
    )
    add(
        "--max-waiting-requests",
        "maximum number of waiting requests; the server refuses further ones with status 429",
        type=int,
        metavar="N",
    )
    add("--request-timeout", "time limit for one request", type=float, metavar="SECONDS")
    add(
        "--shutdown-timeout",
        "how long running requests may continue after shutdown begins",
        dest="drain_timeout",
        type=float,
        metavar="SECONDS",
    )
    add(
        "--generate-delimiter",
        "what ends each chunk of a streamed /generate",
        choices=get_args(GenerateDelimiter),
    )
    add(
        "--enable-auto-tool-choice",
        "let the model choose one of a request's tools",
        action="store_true",
    )
    add(
        "--tool-call-parser",
        "form in which the model calls tools: hermes for Hermes and Qwen, llama3_json for Llama 3",
        choices=get_args(ToolParserName),
    )
    add(
        "--reasoning-parser",
        "separate the reasoning of a model that marks it with <think>; deepseek_r1: the chat"
        " template has written the first mark",
        choices=get_args(ReasoningParserName),
    )
    add(
        "--events",
        "publish all events at /events, for minivllm attach; they include every user's prompts",
        action="store_true",
    )


def run(args: argparse.Namespace) -> int:
    try:
        from minivllm.server.app import assemble
        from minivllm.server.run import bind, run_server
    except ModuleNotFoundError as error:
        if (error.name or "minivllm").startswith("minivllm"):
            raise
        raise ConfigError(
            f"serve needs the package {error.name.partition('.')[0]}: pip install 'minivllm[serve]'."
        ) from error

    options, config = _server_options(args), engine_config(args)
    kv_events = KVEventsConfig.from_json(args.kv_events_config)
    set_up_logging(args.uvicorn_log_level)
    # The tokenizer's library cannot divide a single prompt among threads, and each of its threads
    # would use tens of MiB.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with bind(options) as bound, kv_events.publishing() as publisher:
        engine = _load(config)
        server = assemble(engine, options, publisher)
        # All current objects stay alive, so exclude them from garbage collections. A collection
        # that visits every block of the pool would delay a step by tens of milliseconds.
        gc.collect()
        gc.freeze()
        run_server(server.app, server.service, options, bound)
    return 0


def _server_options(args: argparse.Namespace) -> ServerOptions:
    if args.model_tag is not None:
        if getattr(args, "model", args.model_tag) != args.model_tag:
            raise ConfigError(
                f"MODEL is {args.model_tag} and --model is {args.model}: name the model once."
            )
        args.model = args.model_tag
    taken = {
        field.name: getattr(args, field.name)
        for field in fields(ServerOptions)
        if hasattr(args, field.name)
    }
    # A key on the command line is visible in the list of processes, so users can set the variable.
    keys = tuple(args.api_key) or tuple(filter(None, [os.environ.get(API_KEY)]))
    return ServerOptions(
        **taken | {"api_key": keys, "allowed_hosts": tuple(args.allowed_hosts or ())}
    )


def _load(config: EngineConfig) -> LLMEngine:
    log = logging.getLogger("minivllm.server")
    log.info("loading the model", extra={"fields": {"model": config.model}})
    began = time.monotonic()
    engine = load_engine(config)
    header = engine.log_header()
    model_facts = {
        "seconds": round(time.monotonic() - began, 2),
        "weights": header.weights,
        "num_blocks": header.num_blocks,
        "block_size": header.block_size,
        "max_model_len": header.max_model_len,
        "max_num_seqs": header.max_num_seqs,
    }
    log.info("the model is loaded", extra={"fields": model_facts})
    return engine
