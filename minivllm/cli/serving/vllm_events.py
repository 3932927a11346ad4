"""`minivllm vllm-events`: the recording that a real vLLM writes, over HTTP.

    minivllm vllm-events run.jsonl --port 8001          beside vLLM
    minivllm attach http://127.0.0.1:8001               elsewhere

vLLM's own server has no route for events, so this small one reads the file.
"""

import argparse
from dataclasses import fields

from minivllm import server
from minivllm.cli import options as cli_options
from minivllm.cli.serving.serve import add_access, need_server, server_options
from minivllm.server.logs import set_up_logging
from minivllm.server.options import ServerOptions


def add_arguments(parser: cli_options.Parser) -> None:
    parser.add("FILE", "the recording: vLLM's MINIVLLM_RECORD", dest="file")
    others = {field.name for field in fields(ServerOptions)} - {"host", "port"}
    cli_options.add_fields(parser, ServerOptions, leave_out=others)
    add_access(parser)


def run(args: argparse.Namespace) -> int:
    need_server()
    options = server_options(args)
    set_up_logging("info")
    with server.bind(options) as bound:
        server.serve_file(args.file, options, bound)
    return 0
